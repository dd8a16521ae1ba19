"""Local GGUF models through llama.cpp, called in parallel and decoded together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragweave.llamacpp.chat import LlamaCppChat


__all__ = ["LlamaCppChat"]


def __getattr__(name: str) -> Any:
    """Import the chat model at its first use."""
    if name == "LlamaCppChat":
        from ragweave.llamacpp.chat import LlamaCppChat

        return LlamaCppChat
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
