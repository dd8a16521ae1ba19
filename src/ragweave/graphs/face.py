"""`build_graph` and `build_chat` as type checkers see them: `face.pyi` has the overloads."""

from ragweave.graphs.build import build_graph
from ragweave.graphs.chat import build_chat

__all__ = ["build_chat", "build_graph"]
