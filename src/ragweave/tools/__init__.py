"""Chat models, retrievers, the knowledge base, scorers, text."""
