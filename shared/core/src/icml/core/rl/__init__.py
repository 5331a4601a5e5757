"""RL for language models: advantages, losses, a small readable loop, fair comparison."""
