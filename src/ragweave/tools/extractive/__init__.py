"""The embedded default chat model, which quotes the passages and needs no download."""

from __future__ import annotations

from ragweave.tools.extractive.chat import ExtractiveChat

__all__ = ["ExtractiveChat"]
