"""The experiment: the law, the speed and the likelihood of what is written."""
