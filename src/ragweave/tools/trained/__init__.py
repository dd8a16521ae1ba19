"""Trained components: folders of weights that graphs take in place of prompts."""

from ragweave.tools.trained.card import Card, Kind, Role, read_card

__all__ = ["Card", "Kind", "Role", "read_card"]
