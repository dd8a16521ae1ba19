"""The state of every graph: its records, its reducers and its type.

A node returns an update of some keys: `def node(state) -> RAGState`. Records are plain JSON values. Every reducer
reads None as "start over", which is how the node `begin` clears what a thread's last question left. No result depends
on which branch ended first.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, TypeVar

from langchain_core.documents import Document
from langgraph.config import get_config
from typing_extensions import TypedDict

Status = Literal["answered", "unknown"]

RouteName = Literal["none", "one", "many"]
"""How a question is answered: without retrieval, after one round, after as many as it takes."""

ROUTES: tuple[RouteName, ...] = ("none", "one", "many")
"""The routes, the cheapest first."""

UNKNOWN = "Unknown"
"""The answer where none was found."""


class Candidate(TypedDict):
    """One answer of one model call, before any vote."""

    answer: str
    """The answer as read, or `Unknown`."""
    reply: str
    """The whole reply."""
    pool: str
    """The node that made it: candidates of one pool vote together."""
    round: int
    rank: int
    """Rank of the best passage that it was read from, from 0."""
    sample: int
    passages: list[str]
    """Ids of the passages that it was read from, in prompt order."""


class Quote(TypedDict):
    """A sentence of a passage, word for word: `page_content[start:end]`."""

    passage: str
    start: int
    end: int
    text: str
    score: float
    """Share of the cited part's words that it holds, 0 to 1."""
    file: str
    """Its own place: the passage's `source`, the page, and title and headings. The passage may begin on an earlier page."""
    page: int | None
    heading: str


class Citation(TypedDict):
    """A part of the answer, `answer[start:end]`, and the sentences that support it, best first."""

    text: str
    start: int
    end: int
    quotes: list[Quote]


class Tokens(TypedDict):
    """Calls and tokens of a role or a node."""

    calls: int
    input_tokens: int
    output_tokens: int


class Usage(Tokens, total=False):
    """What a run cost in all, by role and by node; `estimated` where a provider did not count."""

    estimated: bool
    retrievals: int
    saved_tokens: int
    """Estimated tokens that a context filter kept out of the prompt."""
    usd: float
    """US dollars of the calls whose price is known (`ragweave.tools.prices`)."""
    priced_calls: int
    """Number of calls whose price is known; if it equals `calls`, `usd` is the full price."""
    by_role: dict[str, Tokens]
    by_node: dict[str, Tokens]


class Note(TypedDict):
    """What a reader of a trace should know: a fallback taken, a passage dropped."""

    step: int
    node: str
    event: str
    detail: dict[str, Any]


def running() -> tuple[int, str]:
    """Return the step and the name of the node that is running."""
    where = get_config().get("metadata") or {}
    return where.get("langgraph_step", 0), where.get("langgraph_node", "")


def note(event: str, **detail: Any) -> Note:
    """Return a note of the node that is running."""
    step, node = running()
    return {"step": step, "node": node, "event": event, "detail": detail}


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


T = TypeVar("T")


def merge(old: Mapping[str, T] | None, new: Mapping[str, T] | None) -> dict[str, T]:
    """Join two mappings, in order of their keys."""
    joined = {} if new is None else {**(old or {}), **new}
    return {key: joined[key] for key in sorted(joined)}


def merge_candidates(old: Mapping[str, Candidate] | None, new: Mapping[str, Candidate] | None) -> dict[str, Candidate]:
    """Join candidates, in order of round, passage rank and sample."""
    joined = {} if new is None else {**(old or {}), **new}

    def place(key: str) -> tuple[int, int, int, str]:
        candidate = joined[key]
        return candidate["round"], candidate["rank"], candidate["sample"], key

    return {key: joined[key] for key in sorted(joined, key=place)}


def merge_notes(old: Sequence[Note] | None, new: Sequence[Note] | None) -> list[Note]:
    """Join notes, in order of step, node, event and detail."""

    def place(note: Note) -> tuple[int, str, str, str]:
        return note["step"], note["node"], note["event"], json.dumps(note["detail"], default=str)

    return sorted([] if new is None else [*(old or ()), *new], key=place)


def add_usage(old: Usage | None, new: Usage | None) -> Usage:
    """Add two ledgers entry by entry."""
    joined: Usage = no_usage() if new is None else _sum(old or no_usage(), new)
    return joined


def _sum(old: Any, new: Any) -> Any:
    if isinstance(old, dict):
        joined = {**old, **new}
        shared = old.keys() & new.keys()
        return {key: _sum(old[key], new[key]) if key in shared else joined[key] for key in joined}
    return (old or new) if isinstance(old, bool) else old + new


def ever(old: bool | None, new: bool | None) -> bool:
    """Keep whether something has happened."""
    return new is not None and (bool(old) or new)


AnswerType = Literal["short", "long", "yes_no"]
"""The kind of answer wanted: a short phrase, a few sentences, or Yes or No."""


class RAGInput(TypedDict):
    """A graph's input."""

    question: str
    passages: NotRequired[list[Any]]
    """Passages to answer from, best first, instead of retrieval: documents or texts."""
    answer_type: NotRequired[AnswerType | None]
    """None or absent: as the option `answer_type` says."""
    gold_answers: NotRequired[list[str] | None]
    """Correct answers, if known, for FILCO's oracle; no model sees them."""


class RAGOutput(TypedDict):
    """A graph's output, the same for every method."""

    question: str
    answer: str
    """The answer, or `Unknown`."""
    status: Status
    truncated: bool
    """Whether a limit ended the run before the method was done: rounds of a loop, or the budget."""
    passages: list[Document]
    """The passages that the answer was read from, in prompt order."""
    citations: list[Citation]
    candidates: dict[str, Candidate]
    """Every answer that a model gave, by key, in order of round, rank and sample."""
    usage: Usage


class RAGState(TypedDict, total=False):
    """The state of every method; a method with more to remember adds its own keys."""

    question: str
    answer_type: AnswerType
    gold_answers: list[str]
    passages: list[Document]
    """The passages in play, in prompt order; at the end those that the answer was read from."""
    given: bool
    """Whether the input brought the passages, so that nothing is searched for."""
    queries: dict[str, str]
    """Search texts by name, `question` first."""
    retrieved: Annotated[dict[str, list[Document]], merge]
    """What each query found, best first, by its name."""
    answer: str
    status: Status
    truncated: Annotated[bool, ever]
    citations: list[Citation]
    candidates: Annotated[dict[str, Candidate], merge_candidates]
    usage: Annotated[Usage, add_usage]
    notes: Annotated[list[Note], merge_notes]
