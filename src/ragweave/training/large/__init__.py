"""The papers' sizes: sequence-to-sequence models in full, causal ones by low-rank adapters."""
