"""ragweave: published retrieval-augmented-generation methods as LangGraph graphs.

    >>> from ragweave import build_graph
    >>> graph = build_graph("concat_pf", model="openai:gpt-4o-mini", retriever=my_retriever)
    >>> graph.invoke({"question": "…"})["answer"]

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
    from ragweave.tools.models import chat_model

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
    "METHODS": "ragweave.graphs",
    "build_chat": "ragweave.graphs",
    "build_graph": "ragweave.graphs",
    "KnowledgeBase": "ragweave.tools.knowledge",
    "MethodName": "ragweave.names",
    "MetricName": "ragweave.names",
    "RetrieverName": "ragweave.names",
    "RAGInput": "ragweave.state",
    "RAGOutput": "ragweave.state",
    "RAGState": "ragweave.state",
    "chat_model": "ragweave.tools.models",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ragweave' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
