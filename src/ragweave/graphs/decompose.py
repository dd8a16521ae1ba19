"""Decomposition: sub-questions are searched for, and their passages pooled, reranked and read once.

Source: Ammann et al. 2025 (Question Decomposition for Retrieval-Augmented Generation, ACL Student Research Workshop,
arXiv 2507.00355): a model splits the question into at most five sub-questions (section 5.3); the passages of all of
them and of the question are pooled and reranked against the question, and the ten best are read (algorithm 1, section
4.5). `solve="in_turn"` follows LogicRAG (Chen et al. 2026, You Don't Need Pre-built Graphs for RAG, AAAI, arXiv
2508.06105): sub-questions are ranked topologically by what they depend on, and each rank is searched for and answered
before the next one.

Where we differ: the prompts are in our own words. The paper finds ten passages for each query, and samples at
temperature 0.8 and top-p 0.8; here k is five, and the model's own settings hold. The reranker is the retriever's own
(`rerank=` of a knowledge base); without one, the pool is ordered by reciprocal rank fusion. With `in_turn`, a
sub-question refers to the answers that it needs (#1), which are inserted into its search; LogicRAG asks for pairs of
dependencies. We search for each sub-question of a rank by itself, where LogicRAG merges them into one query; keep the
answers, where it writes a running summary; and answer every sub-question, where it stops as soon as the question can
be answered, and may add sub-questions. Its released code splits a question only if the passages found for the question
itself do not answer it, and takes three rounds at most.
"""

import re
from typing import Any, Literal

from langgraph.runtime import Runtime
from langgraph.types import Send
from pydantic import Field

from ragweave.graphs.base import Graph, method
from ragweave.nodes import read
from ragweave.nodes.answer import HOW, OPEN_BOOK, READER, Branch, answer_branches, answer_node, together
from ragweave.nodes.ask import model_node
from ragweave.nodes.options import Options
from ragweave.nodes.prompts import QUERY_TOKENS, Asking, Prompt, Prompts, Turns, few_shot
from ragweave.nodes.retrieve import Route, arranged, found_by_query, join, retrieve_node, search_branches, search_usage
from ragweave.nodes.runner import Components, Retriever, StateNode
from ragweave.nodes.vote import end_by_vote, pool_of
from ragweave.state import UNKNOWN, RAGState, note
from ragweave.state.passages import by_query, with_ranks
from ragweave.tools.models.messages import counted_calls
from ragweave.tools.models.roles import unbound
from ragweave.tools.retrieval.reranking import RerankRetriever
from ragweave.tools.retrieval.retrievers import fused
from ragweave.tools.text.untrusted import one_line, untrusted
from ragweave.tools.text.words import normalize_answer

MAX_QUESTIONS = 5
"""Sub-questions (Ammann et al. 2025, section 5.3)."""


class DecomposeOptions(Options):
    solve: Literal["together", "in_turn"] = Field(
        "together",
        description="Whether sub-questions are only searched for, all at once, or answered in turn, by what they "
        "depend on (LogicRAG).",
    )
    pool: int = Field(
        10, ge=1, description="Maximum number of passages read, out of all that were found (section 4.5)."
    )


class DecomposeState(RAGState, total=False):
    asked: dict[str, str]
    """The sub-questions by number, from "1"; #1 stands for the answer to the first."""


_SPLIT = (
    f"Write the simpler questions, at most {MAX_QUESTIONS}, that have to be answered first. Each must be clear by itself and be "
    "answered by one search. Write each on a line of its own, with its number, and nothing else."
)
_REFER = " Where a question needs the answer to an earlier one, write # and that one's number in its place."
_BOTH = "Which bridge is older, the one at Verra or the one at Osterholt?"
_OLDER = "1. When was the bridge at Verra built?\n2. When was the bridge at Osterholt built?"


def _splitting(task: str, second: str) -> Turns:
    lines = f"1. Which port is The Salt Road about?\n2. {second}"
    return few_shot(
        f"{task}\nQuestion: {{question}}",
        ("On which river lies the port that The Salt Road is about?", lines),
        (_BOTH, _OLDER),
    )


_WITH_FACTS = (
    OPEN_BOOK + "Answers to simpler questions, any of which may be wrong:\n{facts}\nAnswer the question from "
    "the passages and from these answers." + HOW
)
PROMPTS: Prompts = {
    "decompose": _splitting(_SPLIT, "On which river lies the port of The Salt Road?"),
    "decompose_in_turn": _splitting(_SPLIT + _REFER, "On which river lies #1?"),
    "decompose_answer": [("system", READER), ("human", _WITH_FACTS)],
}


@model_node("rewriter")
def split(state: DecomposeState, options: DecomposeOptions) -> Asking[Any, DecomposeState]:
    """Ask for the sub-questions, each once; there is nothing to search for in given passages."""
    if state["given"] and options.solve == "together":
        return {}
    name = "decompose" if options.solve == "together" else "decompose_in_turn"
    reply = yield Prompt(name, max_tokens=QUERY_TOKENS, task="topic")
    first: dict[str, tuple[str, str]] = {}
    for number, text in enumerate(read.listed(reply.text)[:MAX_QUESTIONS], start=1):
        if normalize_answer(text):
            first.setdefault(normalize_answer(text), (str(number), " ".join(text.split())))
    return {"asked": dict(first.values()) if first.keys() - {normalize_answer(state["question"])} else {}}


def facts(state: DecomposeState) -> dict[str, str]:
    """Return the answers to sub-questions, by number."""
    return {str(answer["round"]): answer["answer"] for answer in pool_of(state, "solve")}


def ready(state: DecomposeState) -> list[str]:
    """Return the sub-questions that need no answer that is missing, by number; in a circle, the first one."""
    known = facts(state)
    left = {number: text for number, text in state["asked"].items() if number not in known}
    free = [number for number, text in left.items() if not {*re.findall(r"#(\d)", text)} & (left.keys() - {number})]
    return free or [*left][:1]


def resolved(state: DecomposeState, number: str) -> str:
    """Return a sub-question with the answers that it needs; for an unknown answer, its question."""
    known = {place: answer for place, answer in facts(state).items() if answer != UNKNOWN}
    asked = {place: text.rstrip("?") for place, text in state["asked"].items() if place != number}
    return re.sub(r"#(\d)", lambda match: {**asked, **known}.get(match[1], ""), state["asked"][number])


def plan(state: DecomposeState, runtime: Runtime[DecomposeOptions]) -> DecomposeState:
    """Add the queries of the sub-questions whose turn it is; all at once if they are not answered."""
    numbers = ready(state) if runtime.context.solve == "in_turn" else [*state["asked"]]
    return {"queries": {**state["queries"], **{f"sub_{number}": resolved(state, number) for number in numbers}}}


def solve_branches(state: DecomposeState) -> list[Send]:
    """Return a branch for each sub-question that was searched for and is not answered."""
    known, branches = facts(state), []
    for number in state["asked"]:
        name = f"sub_{number}"
        if number not in known and name in state["queries"]:
            passages = state["passages"] if state["given"] else state["retrieved"].get(name, [])
            question = untrusted(state["queries"][name])  # it holds answers
            shared = Branch(question=question, answer_type="short", passages=passages, sample=0)
            branches.append(Send("solve", Branch(**shared, round=int(number))))
    return branches


def to_search(state: DecomposeState) -> Route:
    """Route: search for the queries that are new; in given passages, answer them at once."""
    if state["given"]:
        return solve_branches(state) or "nothing left"
    new = {name: text for name, text in state["queries"].items() if name not in state["retrieved"]}
    return search_branches(new) or "nothing left"


def to_solve(state: DecomposeState, runtime: Runtime[DecomposeOptions]) -> Route:
    """Route: answer the sub-questions, or read all that they found."""
    return (solve_branches(state) if runtime.context.solve == "in_turn" else []) or "together"


def pool_node(retriever: Retriever | None) -> StateNode:
    """Return the node that takes the best of all that was found, by the retriever's reranker or reciprocal rank."""
    reranker = unbound(retriever)

    def pool(state: DecomposeState, runtime: Runtime[DecomposeOptions]) -> RAGState:
        if state["given"]:
            return {"passages": arranged(state["passages"], runtime.context.order)}
        lists = list(found_by_query(state).values())
        with counted_calls() as counter:
            ranks = isinstance(reranker, RerankRetriever)
            best = (
                reranker.reranked(state["question"], by_query(lists)) if ranks else fused(lists, runtime.context.pool)
            )
        passages = with_ranks(best[: runtime.context.pool])
        notes = [] if passages else [note("no_passages_found")]
        usage = search_usage(counter, retrievals=0)
        return {"passages": arranged(passages, runtime.context.order), "usage": usage, "notes": notes}

    return pool


def to_answer(state: DecomposeState, runtime: Runtime[DecomposeOptions]) -> Route:
    """Route: a branch for each sample over the pool, with the answers to sub-questions."""
    known = sorted((number, answer) for number, answer in facts(state).items() if answer != UNKNOWN)
    hints = [f"{state['queries'][f'sub_{number}']} {answer}" for number, answer in known]
    return answer_branches(state, "answer", runtime.context, together(state["passages"]), hints=hints) or "no passage"


@method(
    "decompose",
    paper="Ammann et al. 2025, Question Decomposition",
    when="Multi-hop questions whose facts are in different documents; with a reranker.",
    group="more than one hop",
    calls=lambda o: (1 + o.samples, 1 + MAX_QUESTIONS * (o.solve == "in_turn") + o.samples),
    options=DecomposeOptions,
    state=DecomposeState,
    prompts=PROMPTS,
)
def decompose(graph: Graph, components: Components) -> None:
    """Sub-questions are searched for, and their passages pooled, reranked and read once."""
    graph.add_node("split", split(components))
    graph.add_node("plan", plan)
    graph.add_node("retrieve", retrieve_node(components.retriever))
    graph.add_node("found", join)
    graph.add_node("solve", answer_node(components, "solve", "concat"))
    graph.add_node("pool", pool_node(components.retriever))
    answers = answer_node(
        components,
        "answer",
        "concat",
        round=MAX_QUESTIONS + 1,
        values=lambda branch, _options: {"facts": "\n".join(map(one_line, branch.get("hints", []))) or "(none)"},
        named=lambda name, options: "decompose_answer" if options.solve == "in_turn" else name,
    )
    graph.add_node("answer", answers)
    graph.add_edge("begin", "split")
    graph.add_edge("split", "plan")
    graph.add_conditional_edges(
        "plan", to_search, {"each query": "retrieve", "passages given": "solve", "nothing left": "pool"}
    )
    graph.add_edge("retrieve", "found")
    graph.add_conditional_edges("found", to_solve, {"in turn": "solve", "together": "pool"})
    graph.add_edge("solve", "plan")
    graph.add_conditional_edges("pool", to_answer, {"each sample": "answer", "no passage": "vote"})
    end_by_vote(graph, "answer")
