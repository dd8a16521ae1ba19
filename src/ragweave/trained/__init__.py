"""Trained parts: folders that graphs take in place of prompt-based nodes."""

from __future__ import annotations

from ragweave.trained.card import (
    FORMAT,
    ModelCard,
    PartRole,
    check_safe,
    is_part,
    read_card,
    write_card,
)

__all__ = ["FORMAT", "ModelCard", "PartRole", "check_safe", "is_part", "read_card", "write_card"]
