"""Text environments: the protocol they share, and adapters of real ones."""
