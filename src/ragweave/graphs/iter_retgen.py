"""ITER-RETGEN: retrieve and generate in rounds; each searches with the last one's text. One call per round.

Source: Shao et al. 2023 (Enhancing Retrieval-Augmented Large Language Models with Iterative
Retrieval-Generation Synergy), section 3: `y_t = M(q, R(y_{t-1} ⊕ q))`. As a baseline in SlimPLM
(appendix B: three rounds; its released code puts the question first) and BlendFilter (appendix C: the
retriever is not trained).

Where we differ, except under a paper's profile: sentences that say "unknown" stay out of the query, which is
cut at 2,000 characters of text. If a round finds the last one's passages, a model at temperature 0 would
say the same again: the run ends.
"""

from collections.abc import Callable

from langgraph.graph import END
from langgraph.runtime import Runtime
from pydantic import Field

from ragweave.graphs.base import Graph, method
from ragweave.graphs.examples import PROMPTS, ShotOptions, reasoned, with_shots
from ragweave.nodes.answer import answer_branches, answer_node
from ragweave.nodes.papers import REFERENCE
from ragweave.nodes.read import MAX_QUERY_CHARACTERS, cut, without_unknown
from ragweave.nodes.retrieve import TO_RETRIEVAL, Route, add_search, retrieve_node, search_branches, to_retrieval
from ragweave.nodes.runner import Components
from ragweave.nodes.vote import latest, majority, pool_of, vote_node
from ragweave.state import RAGState
from ragweave.tools.models.roles import unbound


class IterRetgenOptions(ShotOptions):
    max_rounds: int = Field(3, ge=1, description="Maximum number of retrieval rounds (SlimPLM, appendix B).")


class IterRetgenState(RAGState, total=False):
    round: int
    """The round, from 0."""


def requery(state: IterRetgenState, *, runtime: Runtime[IterRetgenOptions]) -> IterRetgenState:
    """Start the next round: its query is the reply whose answer wins this one, and the question."""
    number, last = state["round"] + 1, latest(pool_of(state, "answer"))
    reply = (majority(last, state["passages"]) or last)[0]["reply"]
    text = " ".join(reply.split()) if runtime.context.paper else cut(without_unknown(reply), MAX_QUERY_CHARACTERS)
    parts = [text, state["question"]]
    query = " ".join(parts[::-1] if runtime.context.paper == "slimplm" else parts).strip()
    return {"round": number, "queries": {f"round_{number}": query}}


def to_answer(components: Components) -> Callable[[IterRetgenState, Runtime[IterRetgenOptions]], Route]:
    """Return the route to this round's answers, or to the vote if they are known to repeat the last ones."""
    own = getattr(unbound(components.models.for_role("generator")), "temperature", None)

    def to_answer(state: IterRetgenState, runtime: Runtime[IterRetgenOptions]) -> Route:
        options, ids = runtime.context, [str(doc.id) for doc in state["passages"]]
        before = [earlier for earlier in pool_of(state, "answer") if earlier["round"] == state["round"] - 1]
        greedy = options.samples == 1 and options.sampling.get("temperature", own) == 0
        if greedy and not options.paper and before and all(earlier["passages"] == ids for earlier in before):
            return "same passages"
        return answer_branches(state, "answer", options, [state["passages"]], round=state["round"])

    return to_answer


def to_next_round(state: IterRetgenState, runtime: Runtime[IterRetgenOptions]) -> Route:
    """Route: another round, or the vote; passages that were given stay the same in every round."""
    last = state["round"] + 1 >= runtime.context.max_rounds
    return "done" if last or state["given"] else "next round"


@method(
    "iter_retgen",
    paper="Shao et al. 2023, ITER-RETGEN",
    when="Where an answer's words find better passages than the question's; a baseline of BlendFilter and SlimPLM.",
    group="more than one hop",
    calls=lambda o: (o.samples, 2 * o.max_rounds * o.samples),
    options=IterRetgenOptions,
    state=IterRetgenState,
    prompts={**PROMPTS, "cot_passages@slimplm": REFERENCE},
)
def iter_retgen(graph: Graph, components: Components) -> None:
    """Retrieve and answer in rounds; each searches with the last one's text."""
    answer = answer_node(
        components, "answer", "cot_passages", closed_book="cot", reasoning=True, named=with_shots, values=reasoned
    )
    add_search(graph, retrieve_node(components.retriever))
    graph.add_node("answer", answer)
    graph.add_node("requery", requery)
    graph.add_node("vote", vote_node("answer"))
    graph.add_conditional_edges("begin", to_retrieval, TO_RETRIEVAL)
    graph.add_conditional_edges("collect", to_answer(components), {"each sample": "answer", "same passages": "vote"})
    graph.add_conditional_edges("answer", to_next_round, {"next round": "requery", "done": "vote"})
    graph.add_conditional_edges(
        "requery", lambda state: search_branches(state["queries"]), {"by the last text": "retrieve"}
    )
    graph.add_edge("vote", END)
