"""Trained parts: folders that graphs take in place of prompt-based nodes."""

from ragweave.tools.parts.card import FORMAT, ModelCard, PartRole, is_part, read_card, write_card
from ragweave.tools.parts.safe import check_safe

__all__ = ["FORMAT", "ModelCard", "PartRole", "check_safe", "is_part", "read_card", "write_card"]
