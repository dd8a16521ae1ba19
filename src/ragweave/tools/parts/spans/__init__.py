"""The span encoder: a filter that reads a passage once and scores every sentence of it (ours)."""
