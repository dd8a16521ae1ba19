"""Draft, then check: the model answers, and then reads the passages again with its draft."""

from langgraph.graph import END
from pydantic import Field

from ragweave.graphs import method
from ragweave.nodes.answer import answer_branches, answer_node, candidates_shown, each_sample
from ragweave.nodes.options import Options
from ragweave.nodes.retrieve import TO_RETRIEVAL, collect_node, join, retrieve_node, to_retrieval
from ragweave.nodes.vote import answers_of, vote_node


class DraftCheckOptions(Options):
    """Options of `draft_check`."""

    check: bool = Field(True, description="Whether the draft is checked.")


def to_check(state, runtime):
    """Route: the drafts are hints for a second reading."""
    hints = answers_of(state["candidates"].values())
    if not runtime.context.check or not hints:
        return "no check"
    return answer_branches(state, "check", runtime.context, [state["passages"]], hints)


@method(
    "draft_check",
    paper="an example",
    when="Where a first reading often misses a detail.",
    calls=lambda o: (o.samples, (1 + o.check) * o.samples),
    options=DraftCheckOptions,
)
def draft_check(graph, components):
    """Answer, then read the passages again with the answer as a hint."""
    graph.add_node("retrieve", retrieve_node(components.retriever))
    graph.add_node("collect", collect_node())
    graph.add_node("draft", answer_node(components, "draft", "concat"))
    graph.add_node("drafted", join)
    graph.add_node("check", answer_node(components, "check", "distill", round=1, values=candidates_shown))
    graph.add_node("vote", vote_node("draft", "check"))
    graph.add_conditional_edges("begin", to_retrieval, TO_RETRIEVAL)
    graph.add_edge("retrieve", "collect")
    graph.add_conditional_edges("collect", each_sample("draft"), {"each sample": "draft"})
    graph.add_edge("draft", "drafted")
    graph.add_conditional_edges("drafted", to_check, {"each sample": "check", "no check": "vote"})
    graph.add_edge("check", "vote")
    graph.add_edge("vote", END)
