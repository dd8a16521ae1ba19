"""Self-Ask: the model asks follow-up questions, each looked up and read, then answers.

Source: Press et al. 2022 (Measuring and Narrowing the Compositionality Gap in Language Models); as
a baseline in SlimPLM (appendix B and table 10: three rounds, the model itself reads what a search
finds) and BlendFilter (appendix C).
"""

from __future__ import annotations

from langgraph.graph import END

from ragweave.graphs.fragments import (
    add_begin,
    add_concat_at_limit,
    add_retrieval,
    to_concat_at_limit,
)
from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.graphs.method import Method, answer_prompts
from ragweave.nodes.retrieve import to_retrieval
from ragweave.nodes.self_ask import PROMPTS, SelfAskOptions, read_step, self_ask_step
from ragweave.nodes.step import Goto, Route
from ragweave.state import RAGState


def to_follow_up(state: RAGState, options: SelfAskOptions) -> Goto:
    """Route: a follow-up is looked up (in the given passages, where there are any).

    Without an answer at the limit, Concat reads what was found.
    """
    if state["candidates"]:
        return to_concat_at_limit(state, options) if options.second_look else "finish"
    return to_retrieval(state, options)


def build(parts: Parts[SelfAskOptions]) -> CompiledGraph:
    """Build `self_ask`: two calls a follow-up, one for the final answer."""
    options = parts.options

    graph = draft(parts)
    add_begin(graph, parts)
    step = self_ask_step(
        parts.models, parts.prompts, options, retrieves=parts.retriever is not None
    )
    graph.add_node("self_ask", step, retry_policy=parts.retry)
    add_retrieval(graph, parts)
    graph.add_node(
        "read", read_step(parts.models, parts.prompts, options), retry_policy=parts.retry
    )
    graph.add_edge("begin", "self_ask")
    graph.add_conditional_edges(
        "self_ask",
        Route(to_follow_up, options),
        {
            "finish": END,
            "follow-up": "retrieve",
            "collect": "collect",
            "no answer": "concat",
        },
    )
    graph.add_edge("collect", "read")
    graph.add_edge("read", "self_ask")
    add_concat_at_limit(graph, parts)
    return finish(graph, "self_ask", parts)


METHOD = Method(
    name="self_ask",
    summary="The model asks follow-up questions, reads what each finds, then answers.",
    paper="Press et al. 2022, Self-Ask",
    when="Multi-hop questions, with a model that asks good follow-up questions.",
    best="1 + 2·second_look",
    worst="2·rounds + 3",
    options=SelfAskOptions,
    build=build,
    prompts={**PROMPTS, **answer_prompts("concat", printed=False)},
)
