"""Passage selection by answers: what gave an answer stays (Liu et al. 2024, section 3.3)."""

from __future__ import annotations

from langgraph.types import Overwrite

from ragweave.nodes.options import OptionsT
from ragweave.nodes.step import Context, Step, Work, pure
from ragweave.nodes.vote import pool_of
from ragweave.state import RAGState, Update
from ragweave.tools.text.normalize import normalize_answer
from ragweave.tools.text.unknown import UNKNOWN


def sift_step(pool: str, options: OptionsT) -> Step[RAGState, OptionsT]:
    """Return the node `sift`: drops the passages whose every answer in `pool` is Unknown."""

    def body(state: RAGState, _context: Context[OptionsT]) -> Work:
        return pure(sift(state, pool))

    return Step("sift", body, options)


def sift(state: RAGState, pool: str) -> Update:
    """Keep the passages that gave an answer; where none did, keep them all for the reader."""
    useful = {
        passage
        for one in pool_of(state, pool)
        if one["answer"] != UNKNOWN
        for passage in one["passages"]
    }
    if not useful:
        return {}
    return {"passages": Overwrite([doc for doc in state["passages"] if doc.id in useful])}


def answers_of(state: RAGState, pool: str) -> list[str]:
    """Return the different answers of a pool but Unknown, in order of rank and sample."""
    answers: dict[str, str] = {}
    for one in pool_of(state, pool):
        if one["answer"] != UNKNOWN:
            answers.setdefault(normalize_answer(one["answer"]), one["answer"])
    return list(answers.values())
