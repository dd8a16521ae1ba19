"""ReAct: thoughts and actions in turns; an action searches or finishes.

Source: Yao et al. 2022 (ReAct: Synergizing Reasoning and Acting in Language Models); as a baseline
in BlendFilter (appendix C: an observation is the retrieved passages).
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
from ragweave.nodes.react import PROMPTS, ReactOptions, react_step
from ragweave.nodes.retrieve import to_retrieval
from ragweave.nodes.step import Goto, Route
from ragweave.state import RAGState


def to_action(state: RAGState, options: ReactOptions) -> Goto:
    """Route: Finish ends the run, Search looks up, a reply without an action is asked again.

    Without an answer at the limit, Concat reads what was found.
    """
    if state["candidates"]:
        return to_concat_at_limit(state, options) if options.second_look else "finish"
    return to_retrieval(state, options) if state["hops"][-1]["query"] else "no action"


def build(parts: Parts[ReactOptions]) -> CompiledGraph:
    """Build `react`: one call a step."""
    options = parts.options

    graph = draft(parts)
    add_begin(graph, parts)
    graph.add_node(
        "react",
        react_step(parts.models, parts.prompts, options, retrieves=parts.retriever is not None),
        retry_policy=parts.retry,
    )
    add_retrieval(graph, parts)
    graph.add_edge("begin", "react")
    graph.add_conditional_edges(
        "react",
        Route(to_action, options),
        {
            "finish": END,
            "search": "retrieve",
            "collect": "collect",
            "no action": "react",
            "no answer": "concat",
        },
    )
    graph.add_edge("collect", "react")
    add_concat_at_limit(graph, parts)
    return finish(graph, "react", parts)


METHOD = Method(
    name="react",
    summary="Thoughts and actions in turns: search, observe, finish.",
    paper="Yao et al. 2022, ReAct",
    when="Multi-hop questions, with a model that keeps to the Thought and Action format.",
    best="1 + second_look",
    worst="max_steps + 2",
    options=ReactOptions,
    build=build,
    prompts={**PROMPTS, **answer_prompts("concat", printed=False)},
)
