"""What ``icml brokenmath reproduce`` measures: a scoring pipeline, and a model that is trained."""
