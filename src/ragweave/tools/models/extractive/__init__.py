"""The embedded default chat model, which quotes the passages and needs no download."""

from ragweave.tools.models.extractive.chat import ExtractiveChat

__all__ = ["ExtractiveChat"]
