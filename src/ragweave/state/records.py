"""Records that the state holds: candidates, usage and notes. Plain JSON values only."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

Status = Literal["answered", "unknown"]
"""`unknown` when the method has no answer; `answer` is then the literal `Unknown`."""


class Hop(TypedDict):
    """One step of a method that asks and looks up in turns (Self-Ask, ReAct)."""

    key: str
    """Name of its query, as in `queries` and `retrieved`."""
    thought: str
    """What the model reasoned before it asked; empty where the method has no thoughts."""
    query: str
    """What the model wanted to look up; empty where its reply could not be read."""
    result: str
    """What a reader made of the passages found; empty where they stand for themselves."""


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
    """Ids of the passages that it was read from, in prompt order: they stood in its own prompt, or
    in those of the calls whose text it sums up."""


class Claim(TypedDict):
    """One claim of a heuristic answer, and the query that checks it."""

    key: str
    """Name of its query: `claim_1`, `claim_2`, …"""
    claim: str
    query: str


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
    saved_tokens: NotRequired[int]
    """Estimated tokens that a context filter kept out of prompts."""


class Note(TypedDict):
    """Something that a reader of the trace should know: a fallback taken, a passage dropped."""

    step: int
    """Superstep of the graph in which it happened."""
    node: str
    event: str
    """A short fixed name, such as `passages_dropped` or `filter_unparsed`."""
    detail: dict[str, Any]
