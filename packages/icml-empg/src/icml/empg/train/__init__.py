"""``icml empg train``: recipes, episodes in text environments, and the run itself."""
