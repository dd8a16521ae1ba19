"""Labels and trained parts: what the papers train, at a laptop's size and at theirs."""
