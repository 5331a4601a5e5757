"""Model I/O: tiny models and tokenizers built in code, log-probabilities."""
