"""The experiment of ``icml agent-omit reproduce``: an agent in a vault learns what to leave out."""
