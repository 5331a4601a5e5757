"""``icml agent-omit train``: recipes, and the run itself."""
