"""Does a question need retrieval? By the model's own word, or by similar questions.

Source: Kadavath et al. 2022 (Language Models (Mostly) Know What They Know) for Self-Eval: few
examples, and the model decides; Wang et al. 2023 (Self-Knowledge Guided Retrieval Augmentation for
Large Language Models) for SKR-KNN: what similar questions needed. Both as SlimPLM's baselines
(section 4.3). The three examples are our own.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from langchain_core.embeddings import Embeddings
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langgraph.types import Overwrite

from ragweave.errors import UsageError
from ragweave.nodes import printed
from ragweave.nodes.ask import Ask, Prompt, Reply, Templates, ask
from ragweave.nodes.options import Options, OptionsT, at_least
from ragweave.nodes.profile import Paper
from ragweave.nodes.replies import bare_text, parse_answer
from ragweave.nodes.reply_form import VERDICT_TOKENS, Choice
from ragweave.nodes.step import Call, Context, Step, Work
from ragweave.nodes.wording import worded
from ragweave.state import RAGState, Update
from ragweave.tools.claims import parse_judgement
from ragweave.tools.models import Models, Role
from ragweave.tools.neighbours import Neighbour, TrainingIndex, embeddings_of, read_training

_LEADING = re.compile(
    r"\A\W*(?P<said>yes|no)\b(?=\W*\Z|\W*[,.;:!\n–—-]|\s+(?:i|it|we|this|that|because|since|need)\b)",
    re.IGNORECASE,
)
_NO_ONE = re.compile(r"\W*no\s+\w", re.IGNORECASE)
_VERDICT = re.compile(r"\bknown[\s*_`]*[(\[{<]|[\"']known[\"']\s*:", re.IGNORECASE)
_CLAUSE = re.compile(r"[.,;:!?\n]|\b(?:and|but|so|because|since|as)\b", re.IGNORECASE)
_LOOK = r"(?:look\w*|search\w*|retriev\w*|check\w*|verif\w*|consult\w*|find\b|more information)"
_NEED = re.compile(
    r"\b(?:needs?|needed|required?|requires|necessary|must|should|have to|has to|want to|will|would"
    rf"|let me|going to|i['’](?:d|ll))\b[\w ]{{0,20}}?\b{_LOOK}"
    r"|\b(?:look(?:ing)?[\w ]{0,12}\bup|search(?:ing)?|retrieval|retrieving)\b[\w '’]{0,20}?"
    r"\b(?:needed|required|necessary)\b",
    re.IGNORECASE,
)
_WITHOUT = re.compile(rf"\bwithout\b[\w ]{{0,20}}?\b{_LOOK}", re.IGNORECASE)
_NEGATED = re.compile(
    r"\b(?:not|no|never|cannot|nothing|hardly|unnecessary|unneeded)\b|n['’]t\b", re.IGNORECASE
)
_DOUBTFUL = re.compile(r"\b(?:if|whether|unless)\b", re.IGNORECASE)


def parse_need(reply: str) -> bool | None:
    """Return whether a reply says that retrieval is needed; None where it can't be read.

    In this order: Yes or No at its start or behind "Answer:" or "the answer is"; a verdict
    `Known(…)` with its brackets; what it says of a need to look something up ("I need to search",
    "there is no need to", "not without looking it up"), where all that it says agrees.
    """
    text = bare_text(reply)
    if leading := _LEADING.match(text):
        return leading["said"].lower() == "yes"
    marked = parse_answer(reply, "yes_no")
    if marked in ("Yes", "No") and not _NO_ONE.match(text):
        return marked == "Yes"
    if _VERDICT.search(text):
        known = parse_judgement(text)
        return None if known is None else not known
    said = {need for clause in _CLAUSE.split(text) if (need := _said(clause)) is not None}
    return said.pop() if len(said) == 1 else None


def _said(clause: str) -> bool | None:
    """Return whether one clause says that looking something up is needed."""
    if _DOUBTFUL.search(clause):
        return None
    if without := _WITHOUT.search(clause):
        return bool(_NEGATED.search(clause[: without.start()]))
    return not _NEGATED.search(clause) if _NEED.search(clause) else None


_ASK = "Question: {question}\nDo you need to look something up to answer it? Say Yes or No."

PROMPTS = MappingProxyType(
    {
        "self_eval": ChatPromptTemplate(
            [
                (
                    "system",
                    "You decide whether you can answer a question from what you know for sure, or "
                    "need to look something up first. You do not answer the question.",
                ),
                ("human", _ASK.format(question="What is the boiling point of water at sea level?")),
                ("ai", "No"),
                ("human", _ASK.format(question="Who was the second mayor of Eastbourne?")),
                ("ai", "Yes"),
                ("human", _ASK.format(question="Which ocean lies between Africa and America?")),
                ("ai", "No"),
                ("human", _ASK),
            ]
        ),
        **printed.DECISION,
    }
)
"""The template by name; its variable is `question`."""


def retrieval_decision_step(
    models: Models, templates: Templates, options: OptionsT, role: Callable[[OptionsT], Role]
) -> Step[RAGState, OptionsT]:
    """Return the node `need`: asks whether the question needs retrieval.

    A reply that can't be read means yes.

    Args:
        models: The models by role.
        templates: The prompt templates.
        options: The build's options.
        role: Who is asked, by the options in force.
    """

    def prompt(state: RAGState, opts: OptionsT) -> Prompt:
        asked = state["question"]
        return Prompt(
            worded(templates, "self_eval", opts, answers=False),
            {"task": "need", "question": asked},
            {"question": asked},
            form=lambda _shown: Choice(("Yes", "No")),
            reply_tokens=VERDICT_TOKENS,
        )

    def update(_state: RAGState, reply: Reply, context: Context[OptionsT]) -> Update:
        needed = parse_need(reply.text)
        if needed is None:
            context.note("need_unparsed")
        return retrieval_decision(known=needed is False)

    def body(state: RAGState, context: Context[OptionsT]) -> Work:
        question = Ask[RAGState, OptionsT](
            name="need", role=role(context.options), prompt=prompt, update=update
        )
        return ask(question, models, state, context)

    return Step("need", body, options)


def retrieval_decision(*, known: bool) -> Update:
    """Return the update of a verdict; what is known is answered without any passage."""
    return {"known": known, "passages": Overwrite([])} if known else {"known": known}


@dataclass(frozen=True, kw_only=True)
class DecisionOptions(Options):
    """Options of a method that decides first whether to retrieve."""

    second_look: bool = True
    """Whether a question that was to take no retrieval, and was then answered Unknown, is searched
    for after all; the papers stop there."""


DecisionT = TypeVar("DecisionT", bound=DecisionOptions)


def looks_again(state: RAGState, options: DecisionOptions) -> bool:
    """Say whether what was to take no retrieval is searched for after all, answered Unknown."""
    return options.second_look and bool(state["known"]) and not state["retrieved"]


def looked_in_vain(state: RAGState) -> bool:
    """Say whether a second look found nothing, so that the prompt would be the first one again."""
    return bool(state["known"]) and bool(state["retrieved"]) and not state["passages"]


@dataclass(frozen=True, kw_only=True)
class SkrKnnOptions(DecisionOptions):
    """Options of `skr_knn`."""

    training: str = ""
    """Path of the training questions: JSONL rows `{"question": …, "needed": true}`."""
    neighbours: int = 5
    """How many of the nearest training questions decide."""
    prior: float | None = 0.5
    """Share of neighbours needing retrieval from which on to retrieve: 0.5 is a majority, a tie
    retrieves; None takes the share among all training questions."""
    embedding: str = "minilm"
    """Embedding model where the build gives no object: `minilm`, a local path or a hub name."""

    @property
    def own_paper(self) -> Paper:
        """SlimPLM."""
        return "slimplm"

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        at_least("neighbours", self.neighbours, 1)
        if self.prior is not None and not 0 <= self.prior <= 1:
            raise UsageError(f"prior must be between 0 and 1, or None, not {self.prior}")


class Library:
    """Training indexes by file and embedding model, each read once."""

    def __init__(self, embeddings: Embeddings | None = None) -> None:
        """Take the caller's embeddings; None: the one that the options name."""
        self._own = embeddings
        self._lock = threading.Lock()
        self._indexes: dict[tuple[str, str], TrainingIndex] = {}

    def index(self, options: SkrKnnOptions) -> TrainingIndex:
        """Return the index that the options name.

        Raises:
            UsageError: No training file is named, or it cannot be read.
            MissingExtraError: The embedding model's packages are not installed.
        """
        if not options.training:
            raise UsageError(
                "skr_knn needs training questions: training=PATH of a JSONL file with rows "
                '{"question": …, "needed": true or false}'
            )
        key = (options.training, "" if self._own else options.embedding)
        with self._lock:
            if key not in self._indexes:
                embeddings = self._own or embeddings_of(options.embedding)
                self._indexes[key] = TrainingIndex(read_training(options.training), embeddings)
            return self._indexes[key]


def neighbours_step(library: Library, options: SkrKnnOptions) -> Step[RAGState, SkrKnnOptions]:
    """Return the node `neighbours`: decides by the nearest training questions, without a model."""

    def body(state: RAGState, context: Context[SkrKnnOptions]) -> Work:
        opts = context.options
        index = library.index(opts)
        found = yield Call(RunnableLambda(_search(index, opts.neighbours)), state["question"])
        prior = index.share_needed if opts.prior is None else opts.prior
        share = share_needed(found)
        questions = [one.question for one in found]
        context.note("neighbours", share=share, prior=prior, questions=questions)
        return retrieval_decision(known=share < prior)

    return Step("neighbours", body, options)


def share_needed(found: Sequence[Neighbour]) -> float:
    """Return the share of neighbours that needed retrieval."""
    return sum(one.needed for one in found) / len(found)


def _search(index: TrainingIndex, count: int) -> Callable[[str], list[Neighbour]]:
    def nearest(question: str) -> list[Neighbour]:
        return index.nearest(question, count)

    return nearest
