"""Adaptive-RAG's classifier: does a question take no retrieval, one round, or many?

Source: Jeong et al. 2024 (Adaptive-RAG: Learning to Adapt Retrieval-Augmented Large Language Models
through Question Complexity), section 3.2: a classifier reads the question alone and gives one of
three classes: A, the model answers by itself; B, one retrieval step; C, many (section 3.1; IRCoT,
section 4.2). It is T5-Large (section 4.4), trained on which approach was right, the simplest of
several, and for questions that none got right on the data set's kind (single-hop B, multi-hop C).
One round finds 15 passages and each of many 6 (released code, `run.py`, `oner_qa` and `ircot_qa`):
its values for Flan-T5, beside which comments give 6 and 3 for GPT. Answers are reasoned, as in its
configurations for GPT: those for Flan-T5 answer directly (`read_by=direct`).

Where we differ: the trained classifier is a linear one over MiniLM's vectors and some features of
the question (`ragweave train router … --set drafts=false`); it gives each route's probability of a
right answer, and a dearer route must add enough. Questions that no route got right train it too,
as such. Without one, a model is asked how many searches it takes, by our prompt: the paper has no
such thing.
What was to take no retrieval and is answered Unknown is searched for once (`second_look`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from langchain_core.prompts import ChatPromptTemplate

from ragweave.errors import UsageError
from ragweave.nodes.answer import branches
from ragweave.nodes.ask import Prompt, Question, Templates, reply_to
from ragweave.nodes.ircot import READERS, IrcotOptions, cut_short, found_so_far
from ragweave.nodes.options import at_least
from ragweave.nodes.replies import bare_text
from ragweave.nodes.reply_form import VERDICT_TOKENS, Choice
from ragweave.nodes.retrieval_decision import looked_in_vain
from ragweave.nodes.retrieve import Retriever, collect_step, searches
from ragweave.nodes.route import check_look, choose_route
from ragweave.nodes.step import Context, Goto, Step, Work
from ragweave.state import RAGState, Update
from ragweave.state.records import RouteName
from ragweave.tools.models import Models
from ragweave.trained.card import check_router

_ASK = "Question: {question}\nHow many searches: none, one or several?"

_SHOWN: Sequence[tuple[str, str]] = (
    ("What is the capital of Italy?", "none"),
    ("When was the lighthouse on Lake Orrin lit?", "one"),
    ("How many legs has a spider?", "none"),
    ("On which river lies the birthplace of the author of The Salt Road?", "several"),
    ("who plays the ferryman in the film Low Water", "one"),
    ("Were the directors of Grey Gull and of Low Water born in the same town?", "several"),
    ("Who painted the Mona Lisa?", "none"),
)
"""Words and not the paper's letters: small instruct models say A to nearly any question."""

PROMPTS = MappingProxyType(
    {
        "complexity": ChatPromptTemplate(
            [
                (
                    "system",
                    "You say how many searches it takes to answer a question. You do not answer "
                    "it. none: everybody knows the answer. one: one search finds it. several: each "
                    "search looks for what the one before has found.",
                ),
                *(
                    message
                    for question, said in _SHOWN
                    for message in (("human", _ASK.format(question=question)), ("ai", said))
                ),
                ("human", _ASK),
            ]
        )
    }
)
"""The template by name; its variable is `question`."""

NAME = "classify"
ONE = "search"
"""The node of a single round's retrieval."""

LETTERS: dict[str, RouteName] = {"A": "none", "B": "one", "C": "many"}
"""The classes of the paper (section 3.2), and the routes that they stand for."""
WORDS: dict[str, RouteName] = {"none": "none", "one": "one", "several": "many"}
"""What the prompt asks for."""


@dataclass(frozen=True, kw_only=True)
class AdaptiveRagOptions(IrcotOptions):
    """Options of `adaptive_rag`; those of `ircot` are for many rounds."""

    strategy: Literal["classified", "none", "one", "many"] = "classified"
    """Who chooses the route: the classifier, or nobody: the same for every question (the paper's
    No Retrieval, Single-step and Multi-step Approach). Passages that the caller gives are read
    once, without a classifier, or with `many` reasoned over step by step."""
    k_one: int = 15
    """Passages of a single round (released code, for Flan-T5); `k` are those of each of many."""
    second_look: bool = True
    """Whether a question that was to take no retrieval, and was then answered Unknown, is searched
    for once after all; the paper stops there."""
    router: str = ""
    """Folder of a router trained on questions alone; "": a model is asked."""
    route_threshold: float | None = None
    """What a dearer route must add to the probability of a right answer; None: what the router's
    training chose."""

    @property
    def chain_answers(self) -> bool:
        """Whether many rounds may be gone, and their chain answers."""
        return super().chain_answers and self.strategy in ("classified", "many")

    def search_depth(self, state: Mapping[str, Any]) -> int:
        """Return how many passages the question's own search asked for, by a run's final state."""
        return self.k if state["route"] == "many" else self.k_one

    @property
    def given_depth(self) -> int:
        """How many of a question's own passages a run hands over in the place of a search."""
        return self.k if self.strategy == "many" else self.k_one

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is out of its range, or the router is missing or another part.
        """
        super().__post_init__()
        at_least("k_one", self.k_one, 1)
        if self.router:
            check_router(self.router, drafts=False)
        elif self.route_threshold is not None:
            raise UsageError("route_threshold needs a trained router: router=FOLDER")


_OPTION = r"(?:none|one|several|[abc])"
_FIRST = re.compile(
    rf"\A\W*(?:(?:class|answer|level|searches|the)\W+)*(?:is\W+)?(?P<said>{_OPTION})\b"
    rf"(?P<more>(?:\W*(?:,|/|\bor\b)\W*{_OPTION}\b)*)",
    re.IGNORECASE,
)
_WORD = re.compile(r"\b(none|one|several)\b", re.IGNORECASE)
_ALONE = re.compile(r"(?<![\w'])([ABC])(?![\w'])")
_LOOKED_AT = 400
"""Characters of a reply in which a word or a letter is looked for."""


def parse_complexity(reply: str) -> RouteName | None:
    """Return the route that a reply names, by its word or by the paper's letter.

    What it begins with decides, then the only letter B or C, then the only word; None where it
    names none, or repeats the choice.
    """
    text = bare_text(reply)[:_LOOKED_AT]
    first = _FIRST.match(text)
    article = first is not None and first["said"] in "aA" and _is_article(text, first.end())
    if first and not article:
        return None if first["more"] else _route(first["said"])
    named = set(_ALONE.findall(text))
    if len(named) == 1 and named != {"A"}:
        return _route(named.pop())
    words = {found.lower() for found in _WORD.findall(text)}
    return _route(words.pop()) if len(words) == 1 and not named else None


def _is_article(text: str, end: int) -> bool:
    return text[end : end + 1] == " " and text[end + 1 : end + 2].islower()


def _route(said: str) -> RouteName:
    return LETTERS[said.upper()] if len(said) == 1 else WORDS[said.lower()]


def classify_step(
    models: Models,
    templates: Templates,
    options: AdaptiveRagOptions,
    retriever: Retriever | None = None,
) -> Step[RAGState, AdaptiveRagOptions]:
    """Return the node `classify`: sets `route`; a reply that can't be read means one round.

    Args:
        models: The models by role.
        templates: Prompt templates by name.
        options: The build's options.
        retriever: Where a router that takes a first look looks.

    Raises:
        UsageError: The router takes a first look, and the retriever can't search by words.
    """
    if options.router:
        check_look(options.router, retriever)

    def prompt(state: RAGState, _options: AdaptiveRagOptions) -> Prompt:
        return Prompt(
            templates["complexity"],
            {"task": "route", "question": state["question"]},
            {"question": state["question"]},
            form=lambda _shown: Choice(tuple(WORDS)),
            reply_tokens=VERDICT_TOKENS,
        )

    question = Question[RAGState, AdaptiveRagOptions](name=NAME, role="proxy", prompt=prompt)

    def body(state: RAGState, context: Context[AdaptiveRagOptions]) -> Work:
        opts = context.options
        if opts.strategy != "classified":
            return _routed(opts.strategy)
        if opts.router:
            pair = (state["question"], "")
            chosen = choose_route(pair, opts.router, opts.route_threshold, retriever, context)
            return _routed((yield from chosen))
        reply = yield from reply_to(question, models, state, context)
        route = parse_complexity(reply.text)
        if route is None:
            context.note("route_unparsed")
        return _routed(route or "one")

    return Step(NAME, body, options)


def _routed(route: RouteName) -> Update:
    return {"route": route, "known": route == "none"}


def collect_routed_step(options: AdaptiveRagOptions) -> Step[RAGState, AdaptiveRagOptions]:
    """Return the node `collect`: `max_passages` bounds what many rounds find, not what one does.

    Passages that the caller gave come here past the classifier: with the strategy `many` the route
    is set here.
    """
    one, many = collect_step(options), collect_step(options, found_so_far)

    def body(state: RAGState, context: Context[AdaptiveRagOptions]) -> Work:
        if not state["retrieved"] and context.options.strategy == "many":
            return {**(yield from many.work(state, context)), **_routed("many")}
        return (yield from (many if state["route"] == "many" else one).work(state, context))

    return Step("collect", body, options)


def to_classifier(state: RAGState, _options: AdaptiveRagOptions) -> str:
    """Route: passages that the caller gave need no classifier."""
    return "passages given" if state["passages"] else "classify"


def to_route(state: RAGState, options: AdaptiveRagOptions) -> Goto:
    """Route: a question that takes no retrieval goes to the reader, any other is searched for."""
    if state["route"] == "none":
        return to_reader(state, options)
    return searches(state, state["queries"], ONE if state["route"] == "one" else "retrieve")


def to_reading(state: RAGState, options: AdaptiveRagOptions) -> Goto:
    """Route: many rounds reason on, one is read; a second look that found nothing is the end."""
    if looked_in_vain(state):
        return "nothing found"
    return "many rounds" if state["route"] == "many" else to_reader(state, options)


def to_reader(state: RAGState, options: AdaptiveRagOptions) -> Goto:
    """Route: the reader, who reads directly where many rounds would have none."""
    reader = READERS["direct" if options.read_by == "chain" else options.read_by]
    again = 1 if state["known"] and state["retrieved"] else None
    return branches(state, reader.name, options, contexts=[state["passages"]], round=again)


def looks_again(state: RAGState, options: AdaptiveRagOptions) -> bool:
    """Say whether what was to take no retrieval is searched for once, answered Unknown."""
    return options.second_look and bool(state["known"]) and not state["retrieved"]


def to_second_look(state: RAGState, _options: AdaptiveRagOptions) -> Goto:
    """Route: what was to take no retrieval is searched for once where it was answered Unknown."""
    return searches(state, state["queries"], ONE)


def ended_early(state: RAGState, options: AdaptiveRagOptions) -> bool:
    """Say whether a limit ended many rounds."""
    return bool(state["hops"]) and cut_short(state, options)
