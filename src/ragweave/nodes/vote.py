"""The majority vote over a pool of candidate answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig

from ragweave.nodes.conclude import conclude
from ragweave.nodes.options import OptionsT
from ragweave.nodes.step import Step, Work, pure
from ragweave.state import Candidate
from ragweave.tools.text.normalize import normalize_answer
from ragweave.tools.text.unknown import UNKNOWN


def majority_vote(candidates: Iterable[Candidate]) -> str:
    """Return the answer that most candidates give, or `Unknown` where none gives one.

    Answers are compared normalised; the winner is shown in the words of its best-ranked
    candidate. "Unknown" never wins while another answer stands. The paper leaves ties open: the
    answer whose best passage ranks first wins, then the earlier sample.

    Source: Liu et al. 2024 (Modeling Uncertainty and Using Post-fusion as Fallback), eq. 2.
    """
    best: dict[str, tuple[tuple[int, int, str], str]] = {}
    votes: dict[str, int] = {}
    for one in candidates:
        if one["answer"] == UNKNOWN:
            continue
        key = normalize_answer(one["answer"]) or one["answer"]
        votes[key] = votes.get(key, 0) + 1
        place = (one["rank"], one["sample"], one["answer"])
        best[key] = min(best.get(key, (place, one["answer"])), (place, one["answer"]))
    if not votes:
        return UNKNOWN
    winner = min(votes, key=lambda key: (-votes[key], best[key]))
    return best[winner][1]


def pool_of(state: Mapping[str, Any], pool: str) -> list[Candidate]:
    """Return the candidates that the node named `pool` made, in order."""
    return [one for one in state["candidates"].values() if one["pool"] == pool]


def vote_step(name: str, pool: str, options: OptionsT) -> Step[OptionsT]:
    """Return a node that votes over one pool and sets the answer."""

    def body(state: Mapping[str, Any], _opts: OptionsT, _config: RunnableConfig) -> Work:
        return pure(conclude(state, majority_vote(pool_of(state, pool))))

    return Step(name, body, options)
