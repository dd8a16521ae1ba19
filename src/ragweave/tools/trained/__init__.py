"""Trained components: folders of weights that graphs take in place of prompts."""
