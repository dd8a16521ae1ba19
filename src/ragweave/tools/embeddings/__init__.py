"""Embeddings: the packaged MiniLM, and models by name."""
