"""How members with equal, similar or different tokenizers write one text together."""
