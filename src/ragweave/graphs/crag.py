"""CRAG: retrieval is graded, and then refined, added to, or replaced.

Source: Yan et al. 2024 (Corrective Retrieval Augmented Generation), section 4 and algorithm 1.
"""

from __future__ import annotations

from langgraph.graph import END

from ragweave.graphs.fragments import add_question_retrieval
from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.graphs.method import Method, answer_prompts
from ragweave.nodes import crag
from ragweave.nodes.crag import ANSWER, PROMPTS, CragOptions, CragState
from ragweave.nodes.retrieve import retrieve_step
from ragweave.nodes.step import Route
from ragweave.nodes.vote import vote_step


def build(parts: Parts[CragOptions]) -> CompiledGraph:
    """Build `crag`: a call a passage, one to search again, one to refine, and the answer."""
    parts = parts.extended(CragState)
    options, models, prompts, retry = parts.options, parts.models, parts.prompts, parts.retry
    second = parts.second_retriever or parts.retriever

    graph = draft(parts)
    add_question_retrieval(graph, parts)
    graph.add_node("grade", crag.grade_step(models, prompts, options), retry_policy=retry)
    graph.add_node("assess", crag.assess_step(options))
    graph.add_node("keywords", crag.keywords_step(models, prompts, options), retry_policy=retry)
    graph.add_node("search", retrieve_step(second, options, "search"), retry_policy=retry)
    graph.add_node("gather", crag.gather_step(options))
    graph.add_node("refine", crag.refine_step(models, prompts, options), retry_policy=retry)
    graph.add_node("answer", parts.answers(ANSWER), retry_policy=retry)
    graph.add_node("vote", vote_step("vote", "answer", options))
    graph.add_conditional_edges("collect", Route(crag.to_grading, options), ["grade", "assess"])
    graph.add_edge("grade", "assess")
    graph.add_conditional_edges(
        "assess",
        Route(crag.to_action, options),
        {"refine": "refine", "keywords": "keywords", "question": "search"},
    )
    graph.add_conditional_edges("keywords", Route(crag.to_second_search, options), ["search"])
    graph.add_edge("search", "gather")
    graph.add_edge("gather", "refine")
    graph.add_conditional_edges("refine", Route(crag.to_answer, options), ["answer"])
    graph.add_edge("answer", "vote")
    graph.add_edge("vote", END)
    return finish(graph, "crag", parts)


METHOD = Method(
    name="crag",
    summary="Retrieval is graded, then refined, added to, or replaced by a second search.",
    paper="Yan et al. 2024, CRAG",
    when=(
        "Where retrieval often fails and there is somewhere else to look: give a second "
        "retriever, such as a web search. A call a passage: let a small judge grade."
    ),
    best="k + 1 + p",
    worst="k + 2 + 2p",
    options=CragOptions,
    build=build,
    roles=lambda options: (
        "judge",
        *(("rewrite",) if options.rewrite and options.second_search else ()),
        *(("filter",) if options.refine else ()),
    ),
    prompts={**PROMPTS, **answer_prompts("concat", "direct")},
    searches_again=True,
)
