"""FILCO: of the retrieved passages only the sentences that help go into the prompt. One call.

Source: Wang et al. 2023 (Learning to Filter Context for Retrieval-Augmented Generation), section 2
and figure 1. The paper trains its filter; without gold answers, and without a trained filter handed
in, this graph filters untrained: against the question, or by asking a model for sentence ids.
"""

from __future__ import annotations

from dataclasses import dataclass

from langgraph.graph import END

from ragweave.graphs.fragments import add_begin, add_retrieval
from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.graphs.method import Method, answer_prompts
from ragweave.nodes.answer import branches
from ragweave.nodes.context_filter import (
    GENERATE_PROMPTS,
    SENTENCE_PROMPTS,
    ContextFilterOptions,
    context_filter_step,
    generated_answer,
)
from ragweave.nodes.options import Options
from ragweave.nodes.retrieve import to_retrieval
from ragweave.nodes.step import Goto, Route
from ragweave.nodes.vote import vote_step
from ragweave.state import RAGState

GENERATE = generated_answer("generate")


@dataclass(frozen=True, kw_only=True)
class FilcoOptions(ContextFilterOptions):
    """Options of `filco`."""


def to_generation(state: RAGState, options: Options) -> Goto:
    """Route: one branch a sample over the filtered context."""
    return branches(state, "generate", options, contexts=[state["passages"]])


def build(parts: Parts[FilcoOptions]) -> CompiledGraph:
    """Build `filco`: one call, and one more where a model names the sentences."""
    options, models, prompts, retry = parts.options, parts.models, parts.prompts, parts.retry

    graph = draft(parts)
    add_begin(graph, parts)
    add_retrieval(graph, parts)
    graph.add_node(
        "filter_context",
        context_filter_step(parts.filters, models, prompts, options),
        retry_policy=retry,
    )
    graph.add_node("generate", parts.answers(GENERATE), retry_policy=retry)
    graph.add_node("vote", vote_step("vote", "generate", options))
    graph.add_conditional_edges(
        "begin",
        Route(to_retrieval, options),
        {"question": "retrieve", "collect": "collect"},
    )
    graph.add_edge("collect", "filter_context")
    graph.add_conditional_edges("filter_context", Route(to_generation, options), ["generate"])
    graph.add_edge("generate", "vote")
    graph.add_edge("vote", END)
    return finish(graph, "filco", parts)


METHOD = Method(
    name="filco",
    summary="Only the sentences that help stand in the prompt.",
    paper="Wang et al. 2023, FILCO",
    when=(
        "Long passages of which a sentence helps. The paper's scores need a filter trained on "
        "its labels; without one, sentences are scored against the question."
    ),
    best="p",
    worst="2p + 1",
    options=FilcoOptions,
    build=build,
    roles=lambda options: ("filter",) if options.filter == "llm" else (),
    prompts={**GENERATE_PROMPTS, **SENTENCE_PROMPTS, **answer_prompts("direct")},
)
