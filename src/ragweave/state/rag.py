"""The typed state of every graph, and its input and output."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from langchain_core.documents import Document
from langgraph.channels import EphemeralValue, UntrackedValue
from langgraph.managed import RemainingSteps
from langgraph.types import Overwrite
from typing_extensions import TypedDict

from ragweave.state.records import (
    Candidate,
    Citation,
    Claim,
    Hop,
    Note,
    RouteName,
    Status,
    Usage,
    add_usage,
    merge_by_key,
    merge_candidates,
    merge_notes,
    take_passages,
)

Passages = Annotated[list[Document], take_passages]
AnswerType = Literal["short", "long", "yes_no"]
"""The kind of answer that a question asks for: a short phrase, a few sentences, or Yes/No."""


class RAGInput(TypedDict):
    """A graph's input."""

    question: str
    """The question; empty or blank is a `UsageError`."""
    passages: NotRequired[Passages]
    """Passages to answer from, best first; given, they take the place of retrieval, and of any
    judging whether to retrieve."""
    answer_type: NotRequired[Annotated[AnswerType | None, EphemeralValue]]
    """The kind of answer wanted by this input; None or absent takes the graph's option. Only the
    node `begin` sees it: later ones read `resolved_answer_type`."""
    gold_answers: NotRequired[Annotated[list[str] | None, EphemeralValue]]
    """Right answers, where known: FILCO's oracle filter works from them. No model sees them."""


class RAGOutput(TypedDict):
    """The output of every graph, so that graphs are interchangeable."""

    question: str
    """The question as asked."""
    answer: str
    """The answer, or the literal `Unknown`."""
    status: Status
    """`answered` or `unknown`."""
    truncated: bool
    """Whether a limit on rounds (the option's, or LangGraph's recursion limit) ended a looping
    method: its last reply still asked for more, was still in doubt, or had no answer. `answer` is
    then the best that the method could give by that time."""
    passages: Passages
    """The passages that the candidates behind the answer read, in prompt order; where none gave
    an answer, those that the last ones asked had read."""
    citations: list[Citation]
    """Which sentences of `passages` support which part of `answer`, where the option `citations`
    asks for them; a part without quotes is not supported."""
    candidates: Annotated[dict[str, Candidate], merge_candidates]
    """Every answer that a model gave, by key, in order of round, rank and sample."""
    usage: Annotated[Usage, add_usage]
    """Calls, tokens and retrievals, in all, by role and by node."""


class RAGState(RAGInput, RAGOutput):  # type: ignore[misc]
    """What flows between nodes. Plain JSON values and LangChain documents only."""

    resolved_answer_type: AnswerType
    """The answer type in force for this question: the input's, else the option's."""
    queries: dict[str, str]
    """Search texts by name, in order of importance (`question` first)."""
    retrieved: Annotated[dict[str, list[Document]], merge_by_key]
    """What each query found, best first, by the query's name."""
    heuristic_answer: str
    """A proxy model's draft answer (SlimPLM section 3.1)."""
    known: bool | None
    """Whether the model is judged to know the answer without retrieval; None: not judged."""
    route: RouteName | None
    """How a router said to answer the question; None: none was asked."""
    claims: list[Claim]
    """Claims of the heuristic answer that need a search, in order (SlimPLM section 3.3)."""
    verdicts: Annotated[dict[str, bool], merge_by_key]
    """Whether each claim is judged known, by the claim's key."""
    topic: str
    """The question's general topic (BlendFilter's filter prompt)."""
    augmented: Annotated[dict[str, str], merge_by_key]
    """Text that a model wrote to expand the question, by the name of the query it makes."""
    hop: int
    """External augmentations done so far (BlendFilter, remark 1)."""
    gold: list[str]
    """The right answers that this input brought, for an oracle filter; empty: none."""
    kept: Annotated[dict[str, list[Document]], merge_by_key]
    """What a filter kept of each query's passages, by the query's name."""
    round: int
    """Which round a looping method is in, from 0."""
    hops: list[Hop]
    """The hops so far of a method that alternates reasoning and search, in order."""
    read: list[str]
    """Ids of the passages that a chain of calls has read so far, in prompt order."""
    written: str
    """The accepted part of the answer, in a method that writes it sentence by sentence (FLARE)."""
    notes: Annotated[list[Note], merge_notes]
    """Fallbacks taken and passages dropped, for the reader of a trace."""
    deadline: Annotated[float, UntrackedValue]
    """Clock time (seconds since the epoch) by which this run must end; not checkpointed."""
    remaining_steps: RemainingSteps
    """Supersteps left before LangGraph's recursion limit; the framework sets it."""


class Branch(TypedDict):
    """The input of one parallel answer branch (the payload of a `Send`)."""

    question: str
    answer_type: AnswerType
    passages: list[Document]
    """Passages of this branch's prompt, in prompt order."""
    sample: int
    """Which self-consistency sample this branch draws."""
    hints: list[str]
    """Candidate answers of an earlier round, best first."""
    draft: NotRequired[str]
    """The reasoning that a short answer is extracted from."""
    read: NotRequired[list[Document]]
    """The passages that this reasoning read; the branch's own prompt does not show them."""
    concluded: NotRequired[str]
    """The answer that was read off this reasoning, held against those passages; or Unknown."""
    round: NotRequired[int]
    """Which round this is, in a method that asks the same node again."""
    deadline: NotRequired[float]


class QueryBranch(TypedDict):
    """The input of one retrieval branch."""

    query_key: str
    """The query's name."""
    query: str
    deadline: NotRequired[float | None]


class ClaimBranch(Claim):
    """The input of one branch that judges a claim."""

    deadline: NotRequired[float | None]


class PassageSet(TypedDict):
    """The input of one branch that filters a query's passages."""

    question: str
    topic: str
    query_key: str
    """The query's name."""
    passages: list[Document]
    deadline: NotRequired[float | None]


class Update(TypedDict, total=False):
    """A node's partial update of the state; a state of one's own has an update of its own.

    What a reducer merges may be replaced as a whole by `Overwrite`.
    """

    question: str
    answer: str
    status: Status
    truncated: bool
    passages: Overwrite
    """Nodes replace the passages; what is merged counts as handed in by the caller."""
    citations: list[Citation]
    candidates: dict[str, Candidate] | Overwrite
    usage: Usage | Overwrite
    resolved_answer_type: AnswerType
    queries: dict[str, str]
    retrieved: dict[str, list[Document]] | Overwrite
    heuristic_answer: str
    known: bool | None
    route: RouteName | None
    claims: list[Claim]
    verdicts: dict[str, bool] | Overwrite
    topic: str
    augmented: dict[str, str] | Overwrite
    hop: int
    gold: list[str]
    kept: dict[str, list[Document]] | Overwrite
    round: int
    hops: list[Hop]
    read: list[str]
    written: str
    notes: list[Note] | Overwrite
    deadline: float
