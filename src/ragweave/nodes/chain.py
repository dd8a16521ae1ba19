"""Shared by Self-Ask, ReAct and IRCoT: chains in which each call reads the previous reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from langchain_core.documents import Document
from pydantic import model_validator

from ragweave.nodes import read
from ragweave.nodes.answer import answer_branches, together
from ragweave.nodes.options import Options
from ragweave.nodes.retrieve import Route
from ragweave.nodes.vote import final_update
from ragweave.state import Candidate, RAGState
from ragweave.tools.text.normalize import normalize_answer

LAST_STEPS = 7
"""The most supersteps that one more round and the end of the run take."""

LAST_ROUND = 1_000
"""The round of the final Concat, after all rounds of a chain."""


class ChainOptions(Options):
    """Options of a method whose calls form one chain."""

    @model_validator(mode="after")
    def _one_chain(self) -> Self:
        if self.samples > 1:
            raise ValueError(
                "samples: this method's calls form one chain, so its answers can't be sampled one by one: run the graph "
                f"{self.samples} times"
            )
        return self


def end_chain(state: RAGState, made: Candidate, passages: Sequence[Document], *, truncated: bool) -> RAGState:
    """Return the update that ends a chain with its one candidate.

    Args:
        state: The state.
        made: The candidate.
        passages: All passages of the chain, as they were shown.
        truncated: Whether a limit ended it.
    """
    end = final_update(state, [made], passages=passages, truncated=truncated)
    return {**end, "candidates": {f"{made['pool']}:0": made}}


def asked_before(query: str, hops: Sequence[Any]) -> bool:
    """Return whether an earlier hop had this query, ignoring case and punctuation."""
    return bool(query) and normalize_answer(query) in {normalize_answer(hop["query"]) for hop in hops}


def copies_example(answer: str, examples: str, state: RAGState, seen: Sequence[str]) -> bool:
    """Return whether a short answer is copied from the prompt's examples, as small models do."""
    return state["answer_type"] == "short" and read.copied(answer, examples, " ".join([state["question"], *seen]))


def to_concat(state: RAGState, options: Any) -> Route:
    """Return Concat's branches over what a chain read, if a limit ended it without an answer."""
    wanted = state["truncated"] and options.fallback_retrieval
    return (answer_branches(state, "concat", options, together(state["passages"])) if wanted else []) or "answered"
