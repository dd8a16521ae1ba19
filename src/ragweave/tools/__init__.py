"""What touches the world: chat models, retrievers, the knowledge base, scorers, text."""
