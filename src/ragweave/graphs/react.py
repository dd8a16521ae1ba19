"""ReAct: thoughts and actions in turns; an action searches or finishes.

Source: Yao et al. 2022 (ReAct: Synergizing Reasoning and Acting in Language Models); as a baseline
in BlendFilter (appendix C: an observation is the retrieved passages).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langgraph.graph import END, START

from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.graphs.method import Method
from ragweave.nodes.begin import begin_step
from ragweave.nodes.react import ReactOptions, react_step
from ragweave.nodes.react_prompts import PROMPTS
from ragweave.nodes.retrieve import collect_step, retrieve_step, to_retrieval
from ragweave.nodes.step import Route


def to_action(state: Mapping[str, Any], options: ReactOptions) -> Any:
    """Route: Finish ends the run, Search looks up, a reply without an action is asked again."""
    if state["candidates"]:
        return "finish"
    return to_retrieval(state, options) if state["hops"][-1]["query"] else "no action"


def build(parts: Parts[ReactOptions]) -> CompiledGraph:
    """Build `react`: one call a step."""
    options = parts.options

    graph = draft(options)
    graph.add_node("begin", begin_step(options))
    graph.add_node(
        "react", react_step(parts.models, parts.prompts, options), retry_policy=parts.retry
    )
    graph.add_node("retrieve", retrieve_step(parts.retriever, options), retry_policy=parts.retry)
    graph.add_node("collect", collect_step(options))
    graph.add_edge(START, "begin")
    graph.add_edge("begin", "react")
    graph.add_conditional_edges(
        "react",
        Route(to_action, options),
        {"finish": END, "search": "retrieve", "collect": "collect", "no action": "react"},
    )
    graph.add_edge("retrieve", "collect")
    graph.add_edge("collect", "react")
    return finish(graph, "react", parts)


METHOD = Method(
    name="react",
    summary="Thoughts and actions in turns: search, observe, finish.",
    paper="Yao et al. 2022, ReAct",
    when="Multi-hop questions, with a model that keeps to the Thought and Action format.",
    best="1",
    worst="max_steps",
    options=ReactOptions,
    build=build,
    prompts=PROMPTS,
)
