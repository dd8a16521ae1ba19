"""Self-Eval: the model says whether it needs retrieval, then answers with passages or without.

Source: Kadavath et al. 2022 (Language Models (Mostly) Know What They Know), as SlimPLM's baseline (section
4.3). `self_eval@slimplm` is the released code's, with its examples.

Where we differ: with `fallback_retrieval`, the method retrieves after all if the model said it knew and then answered
Unknown. The examples of our own prompt are ours.
"""

import re
from typing import Any, ClassVar, Literal, Self

from langchain_core.decisions import Noul
from langgraph.runtime import Runtime
from pydantic import Field

from ragweave.graphs.base import Graph, method
from ragweave.nodes.answer import answer_branches, answer_node
from ragweave.nodes.ask import model_node
from ragweave.nodes.forms import Form
from ragweave.nodes.papers import Paper
from ragweave.nodes.prompts import VERDICT_TOKENS, Asking, Prompt, Prompts, few_shot
from ragweave.nodes.queries import SearchOptions, search_node
from ragweave.nodes.read import choice
from ragweave.nodes.retrieve import Route, add_search, fallback_wanted, search_branches
from ragweave.nodes.runner import Components
from ragweave.nodes.vote import add_fallback
from ragweave.state import RAGState


class DecisionOptions(SearchOptions):
    """Options of a method that decides first whether to retrieve."""

    own_paper: ClassVar[Paper | Literal[""]] = "slimplm"

    fallback_retrieval: bool = Field(
        True,
        description="Whether to retrieve after all if the answer without passages is Unknown; the papers stop there.",
    )

    @property
    def query_calls(self) -> tuple[int, int]:
        """None where it does not search."""
        return 0, super().query_calls[1]


class SelfEvalOptions(DecisionOptions):
    decided_by: Literal["generator", "judge"] = Field(
        "generator", description="Whether the generator itself decides (the paper's way), or the judge."
    )


class DecisionState(RAGState, total=False):
    """The state of a method that decides first whether to retrieve."""

    known: bool
    """Whether the question is answered without passages first."""


class Need(Form):
    """Whether the question needs retrieval."""

    decides = Noul(instructions="Does one have to look something up to answer the question?")

    needed: Literal["Yes", "No"]

    @classmethod
    def from_text(cls, text: str) -> Self | None:
        """Read Yes or No, or a sentence that says whether the model needs something."""
        statement = re.search(r"\b(?:i|we) (do not |don't )?need\b", text, re.I)
        word = choice(text, "Yes", "No") or (statement and ("No" if statement[1] else "Yes"))
        return cls.model_validate({"needed": word}) if word else None


PROMPTS: Prompts = {
    "self_eval": few_shot(
        "Question: {question}\nDo you need to look something up to answer it? Say Yes or No.",
        ("What is the boiling point of water at sea level?", "No"),
        ("Who was the second mayor of Eastbourne?", "Yes"),
        ("Which ocean lies between Africa and America?", "No"),
        system="You decide whether you can answer a question from what you know for sure, or need to look something up "
        "first. You do not answer the question.",
    )
}


@model_node(lambda options: options.decided_by)
def need(_state: DecisionState, _options: SelfEvalOptions) -> Asking[Need, DecisionState]:
    """Ask whether the question needs retrieval; a decision that can't be read means that it does."""
    reply = yield Prompt("self_eval", form=Need, max_tokens=VERDICT_TOKENS, task="need")
    return {"known": reply.form is not None and reply.form.needed == "No"}


def to_decision(state: RAGState) -> str:
    """Route: passages that the caller gave need no decision."""
    return "passages given" if state["given"] else "decide"


def to_search(state: DecisionState, runtime: Runtime[DecisionOptions]) -> Route:
    """Route: what is known is answered without passages; anything else is searched for."""
    if state["known"]:
        return answer_branches(state, "answer", runtime.context, [[]])
    return search_branches(state["queries"])


def to_answer(state: RAGState, runtime: Runtime[Any], node: str = "answer") -> Route:
    """Route: one branch per sample; a fallback that found nothing would ask the same again."""
    falls_back = bool(state["candidates"])
    contexts = [state["passages"]] if state["passages"] or not falls_back else []
    return answer_branches(state, node, runtime.context, contexts, round=1 if falls_back else None) or "nothing found"


def add_decision(graph: Graph, components: Components, decision: str) -> None:
    """Add retrieval and the answer after the node `decision`, which sets `known`."""
    add_search(graph, search_node(components))
    graph.add_node("answer", answer_node(components, "answer", "direct_passages", closed_book="direct"))
    graph.add_conditional_edges(decision, to_search, {"known": "answer", "needed": "retrieve"})
    graph.add_conditional_edges("collect", to_answer, {"each sample": "answer", "nothing found": "vote"})
    graph.add_edge("answer", "vote")
    add_fallback(
        graph,
        "vote",
        "answer",
        wanted=fallback_wanted(components),
        then=lambda state, _options: search_branches(state["queries"]),
        routes={"not known": "retrieve"},
    )


@method(
    "self_eval",
    paper="Kadavath et al. 2022, Self-Eval",
    when="Where some questions need no retrieval and the model can tell which.",
    group="when to retrieve",
    calls=lambda o: (1 + o.samples, 1 + (1 + o.fallback_retrieval) * o.samples),
    options=SelfEvalOptions,
    state=DecisionState,
    prompts=PROMPTS,
)
def self_eval(graph: Graph, components: Components) -> None:
    """The model itself says first whether it needs to retrieve."""
    graph.add_node("need", need(components))
    graph.add_conditional_edges("begin", to_decision, {"decide": "need", "passages given": "collect"})
    add_decision(graph, components, "need")
