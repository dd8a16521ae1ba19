"""The records in the state (candidates, hops, usage, notes) and the reducers that merge them.

Records are plain JSON values only. Reducers merge the updates of parallel branches; no result
depends on which branch finished first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypeVar, cast

from langchain_core.documents import Document
from typing_extensions import TypedDict

from ragweave.errors import UsageError
from ragweave.state.passages import as_document, given_passages

Status = Literal["answered", "unknown"]
"""`unknown` when the method has no answer; `answer` is then the literal `Unknown`."""


RouteName = Literal["none", "one", "many"]
"""How a question is answered: without retrieval, after one round, after as many as it takes."""

ROUTES: tuple[RouteName, ...] = ("none", "one", "many")
"""The routes, the cheapest first."""


class Hop(TypedDict):
    """One step of a method that alternates reasoning and search (Self-Ask, ReAct)."""

    key: str
    """Name of its query, as in `queries` and `retrieved`."""
    thought: str
    """The model's reasoning before its query; empty where the method has no thoughts."""
    query: str
    """The model's search query; empty where its reply could not be read."""
    result: str
    """The intermediate answer read from the passages; empty where the passages are shown."""


class Candidate(TypedDict):
    """One answer of one model call, before any vote."""

    answer: str
    """The answer as parsed; the literal `Unknown` where the model did not know."""
    reply: str
    """The model's whole reply."""
    pool: str
    """Name of the node that made it: candidates of one pool vote together."""
    round: int
    """Which round of the method made it, from 0."""
    rank: int
    """Rank of the best passage that it was read from, from 0."""
    sample: int
    """Which self-consistency sample it is, from 0."""
    passages: list[str]
    """Ids of the passages that it was read from, in prompt order: those of its own prompt, or of
    the calls whose text it sums up."""


class Claim(TypedDict):
    """One claim of a heuristic answer, and the query that checks it."""

    key: str
    """Name of its query: `claim_1`, `claim_2`, …"""
    claim: str
    query: str


class Quote(TypedDict):
    """A sentence of a passage, word for word."""

    passage: str
    """The passage's id."""
    start: int
    """Where it begins in the passage's text, as the output shows it, in characters."""
    end: int
    """Where it ends."""
    text: str
    """The sentence: `page_content[start:end]`."""
    score: float
    """Share of the cited part's words that it holds, weighted by rarity, from 0 to 1."""


class Citation(TypedDict):
    """A part of an answer and what supports it."""

    text: str
    """The part: `answer[start:end]`."""
    start: int
    """Where it begins in the answer, in characters."""
    end: int
    """Where it ends."""
    quotes: list[Quote]
    """The sentences that support it, best first; empty: no passage does."""


class Tokens(TypedDict):
    """Calls and tokens of one role or one node."""

    calls: int
    input_tokens: int
    output_tokens: int


class Usage(Tokens):
    """What a run cost, all roles together, then by role and by node.

    Token counts are the provider's; where it reports none they are estimated from characters
    and `estimated` is True.
    """

    estimated: bool
    retrievals: int
    by_role: dict[str, Tokens]
    by_node: dict[str, Tokens]
    look_searches: NotRequired[int]
    """Searches by words that a trained router asked for before it chose; they are no retrievals,
    and no prompt shows what they found."""
    saved_tokens: NotRequired[int]
    """Estimated tokens that a context filter kept out of prompts."""
    usd: NotRequired[float]
    """US dollars of the calls whose price is known (`ragweave.tools.prices`)."""
    priced_calls: NotRequired[int]
    """How many calls that are; `usd` is the whole price where it equals `calls`."""


class Note(TypedDict):
    """Something that a reader of the trace should know: a fallback taken, a passage dropped."""

    step: int
    """Superstep of the graph in which it happened."""
    node: str
    event: str
    """A short fixed name, such as `passages_dropped` or `filter_unparsed`."""
    detail: dict[str, Any]


T = TypeVar("T")


def merge_by_key(old: Mapping[str, T] | None, new: Mapping[str, T] | None) -> dict[str, T]:
    """Join two mappings in key order; branches write disjoint keys, an edit replaces its key."""
    joined = {**(old or {}), **(new or {})}
    return {key: joined[key] for key in sorted(joined)}


def merge_candidates(
    old: Mapping[str, Candidate] | None, new: Mapping[str, Candidate] | None
) -> dict[str, Candidate]:
    """Join candidates by key, ordered by round, then passage rank, then sample, then key."""
    joined = {**(old or {}), **(new or {})}

    def place(key: str) -> tuple[int, int, int, str]:
        one = joined[key]
        return one["round"], one["rank"], one["sample"], key

    # LangGraph merges branch by branch, mostly in order: sorting each time would be quadratic.
    keys = list(joined)
    appended = old and new and len(new) == 1 and len(keys) == len(old) + 1
    if appended and place(keys[-2]) < place(keys[-1]):
        return joined
    return {key: joined[key] for key in sorted(joined, key=place)}


def add_usage(old: Usage | None, new: Usage | None) -> Usage:
    """Add two ledgers: numbers add up, flags join by `or`, tables add entry by entry."""
    return cast("Usage", _add(dict(old or {}), dict(new or {})))


def _add(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _add_values(old.get(key), new.get(key)) for key in sorted({*old, *new})}


def _add_values(old: Any, new: Any) -> Any:
    if old is None or new is None:
        one = new if old is None else old
        return _add(one, {}) if isinstance(one, dict) else one
    if isinstance(old, dict):
        return _add(old, new)
    return (old or new) if isinstance(old, bool) else old + new


def merge_notes(old: Sequence[Note] | None, new: Sequence[Note] | None) -> list[Note]:
    """Join notes in order of step, node, event and content."""
    return sorted(
        [*(old or ()), *(new or ())],
        key=lambda note: (
            note["step"],
            note["node"],
            note["event"],
            json.dumps(note["detail"], sort_keys=True, default=str),
        ),
    )


def no_usage() -> Usage:
    """Return an empty ledger."""
    return {
        "calls": 0,
        "input_tokens": 0,
        "output_tokens": 0,
        "estimated": False,
        "retrievals": 0,
        "by_role": {},
        "by_node": {},
    }


def take_passages(_old: object, new: Sequence[Any] | None) -> list[Document]:
    """Take passages that a caller hands in, as ranked documents marked `given`.

    Nodes write `passages` through `Overwrite`, which bypasses this reducer. So the mark tells
    passages handed in with this input from those that an earlier turn of the same thread left.

    Raises:
        UsageError: `new` is not a list of passages.
    """
    if isinstance(new, str | Mapping):
        raise UsageError(f"passages must be a list of passages, not one {type(new).__name__}")
    return given_passages(map(as_document, new or ()))
