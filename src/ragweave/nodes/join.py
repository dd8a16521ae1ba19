"""A node where branches meet before the next ones part."""

from __future__ import annotations

from ragweave.nodes.options import OptionsT
from ragweave.nodes.step import Context, Step, Work, pure
from ragweave.state import RAGState


def join_step(name: str, options: OptionsT) -> Step[RAGState, OptionsT]:
    """Return a node that changes nothing: its outgoing route runs once, behind all branches."""

    def body(_state: RAGState, _context: Context[OptionsT]) -> Work:
        return pure({})

    return Step(name, body, options)
