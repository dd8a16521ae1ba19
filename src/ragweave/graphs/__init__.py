"""The methods: one file each, wiring and nothing else."""

from ragweave.graphs.chat import ChatGraph, chat_over
from ragweave.graphs.face import build_chat, build_graph
from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.graphs.method import Method, answer_prompts
from ragweave.graphs.registry import METHODS, register_method

__all__ = [
    # a graph by its method's name
    "METHODS",
    "build_graph",
    "CompiledGraph",
    # a conversation over one
    "ChatGraph",
    "build_chat",
    "chat_over",
    # a method of one's own
    "Method",
    "Parts",
    "answer_prompts",
    "draft",
    "finish",
    "register_method",
]
