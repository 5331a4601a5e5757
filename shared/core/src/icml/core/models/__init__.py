"""Model I/O: load, build, step, cut and look into models; score tokens, embed sentences."""
