"""Model I/O: load models of all sources, tiny ones built in code, log-probabilities."""
