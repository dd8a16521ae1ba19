"""ragweave: published retrieval-augmented-generation methods as LangGraph graphs.

    >>> from ragweave import build_graph
    >>> graph = build_graph("concat_pf", model="openai:gpt-4o-mini", retriever=my_retriever)  # doctest: +SKIP
    >>> graph.invoke({"question": "…"})["answer"]  # doctest: +SKIP

Names are imported when they are first used, so that `import ragweave` costs next to nothing.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragweave.graphs import METHODS, build_chat, build_graph
    from ragweave.names import MethodName, MetricName, RetrieverName
    from ragweave.state import RAGInput, RAGOutput, RAGState
    from ragweave.tools.knowledge import KnowledgeBase
    from ragweave.tools.providers import chat_model

__version__ = "0.1.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "METHODS",
    "KnowledgeBase",
    "MethodName",
    "MetricName",
    "RAGInput",
    "RAGOutput",
    "RAGState",
    "RetrieverName",
    "build_chat",
    "build_graph",
    "chat_model",
]

_HOMES = {
    "ragweave.graphs": ("METHODS", "build_chat", "build_graph"),
    "ragweave.names": ("MethodName", "MetricName", "RetrieverName"),
    "ragweave.state": ("RAGInput", "RAGOutput", "RAGState"),
    "ragweave.tools.knowledge": ("KnowledgeBase",),
    "ragweave.tools.providers": ("chat_model",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module 'ragweave' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
