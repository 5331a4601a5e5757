"""Training that never believes an unverified proof: expert iteration, DAPO, and their recipes."""
