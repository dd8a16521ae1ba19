"""The majority vote over a pool of candidate answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig

from ragweave.nodes.conclude import conclude
from ragweave.nodes.options import OptionsT
from ragweave.nodes.step import Step, Work, pure
from ragweave.state import Candidate, Stopped
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


def pool_of(state: Mapping[str, Any], *pools: str) -> list[Candidate]:
    """Return the candidates that the nodes named `pools` made, in order."""
    return [one for one in state["candidates"].values() if one["pool"] in pools]


def last_round(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates of the latest round among `candidates`, in order."""
    listed = list(candidates)
    latest = max((one["round"] for one in listed), default=0)
    return [one for one in listed if one["round"] == latest]


def vote_step(
    name: str,
    pool: str | tuple[str, ...],
    options: OptionsT,
    stopped: Callable[[Mapping[str, Any], OptionsT], Stopped] = lambda _state, _options: "",
) -> Step[OptionsT]:
    """Return a node that votes over the latest round of a pool, or of several, joined.

    `stopped` says of state and options whether a limit cut the method short.
    """
    pools = (pool,) if isinstance(pool, str) else pool

    def body(state: Mapping[str, Any], opts: OptionsT, _config: RunnableConfig) -> Work:
        winner = majority_vote(last_round(pool_of(state, *pools)))
        return pure(conclude(state, winner, stopped(state, opts)))

    return Step(name, body, options)
