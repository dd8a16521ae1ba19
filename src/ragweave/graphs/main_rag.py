"""MAIN-RAG: three agents filter the passages: one answers, one judges, one answers from what is left.

Source: Chang et al. 2025 (MAIN-RAG: Multi-Agent Filtering Retrieval-Augmented Generation, ACL, arXiv 2501.00332). The
predictor answers from each passage (section 3.1). The judge says whether the passage contains what the question asks
for, and whether the answer follows from it (appendix C); a passage's score is the log-odds of its Yes against its No
(section 3.2). The adaptive judge bar is the mean of the scores minus n standard deviations, n = 0 by default (section
3.3); passages below it are dropped, and the final predictor reads the others, best first (section 4.5).

Where we differ: the prompts are in our own words. A decision model may judge (`judge=`): the score is then the
log-odds of its probability. A judge that reports no log-probabilities states its confidence in a form. The paper
filters twenty passages (section 4.3); k is five here, as two calls are made for each.
"""

import math
import statistics
from typing import Annotated, Any, Literal

from langchain_core.decisions import Noul
from langgraph.runtime import Runtime
from langgraph.types import Send
from pydantic import Field

from ragweave.graphs.base import Graph, method
from ragweave.nodes.answer import READER, Branch, add_answer, answer_node, each_passage
from ragweave.nodes.ask import model_node
from ragweave.nodes.forms import Form
from ragweave.nodes.prompts import VERDICT_TOKENS, Asking, Prompt, Prompts, Reply
from ragweave.nodes.queries import SearchOptions, add_retrieval
from ragweave.nodes.retrieve import arranged, join
from ragweave.nodes.runner import Components, Node
from ragweave.nodes.vote import pool_of
from ragweave.state import RAGState, merge, note
from ragweave.state.passages import with_ranks
from ragweave.tools.models.calls import Endpoint
from ragweave.tools.text.untrusted import untrusted


class MainRagOptions(SearchOptions):
    n: float = Field(0.0, description="How many standard deviations the judge bar is below the mean score.")


class MainRagState(RAGState, total=False):
    scores: Annotated[dict[str, float], merge]
    """The judge's log-odds of each passage, by its id."""


_HELPS = "Does the passage hold what the question asks for, and does the draft answer follow from the passage?"


class Helps(Form):
    """The judge's verdict."""

    decides = Noul(instructions=_HELPS)

    answer: Literal["Yes", "No"]


class Stated(Form):
    """The judge's verdict and its confidence, where there are no log-probabilities."""

    answer: Literal["Yes", "No"]
    confidence: Literal["50%", "60%", "70%", "80%", "90%", "99%"]


_JUDGE = (
    "{passages}\n\nQuestion: {question}\nDraft answer: {draft}\nThe passage may be noise: it may not be about the "
    f"question, or mislead. {_HELPS} Say Yes only if both are so; else No."
)
PROMPTS: Prompts = {
    "main_rag_judge": [("system", READER), ("human", _JUDGE)],
    "main_rag_judge_stated": [("system", READER), ("human", f"{_JUDGE} State how sure you are, from 50% to 99%, too.")],
}


def to_judges(state: MainRagState) -> list[Send]:
    """Route: a branch for each passage with the answer that was read from it."""
    drafts = {
        doc_id: candidate["answer"] for candidate in pool_of(state, "predict") for doc_id in candidate["passages"]
    }
    return [
        Send("judge", Branch(question=state["question"], passages=[doc], draft=drafts.get(str(doc.id), "")))
        for doc in state["passages"]
    ]


def judge_node(components: Components) -> Node:
    """Return the node that scores a passage: by log-probabilities, by a decision model, or by a stated confidence."""
    models = components.models
    states = not models.decides("judge") and not Endpoint(models.for_role("judge")).reports_logprobs

    @model_node("judge")
    def judge(state: Branch, _options: MainRagOptions) -> Asking[Any, MainRagState]:
        name, form = ("main_rag_judge_stated", Stated) if states else ("main_rag_judge", Helps)
        reply = yield Prompt(
            name,
            {"draft": untrusted(state["draft"])},
            state["passages"],
            form=form,
            max_tokens=VERDICT_TOKENS,
            task="sufficient",
            probability=not states,
        )
        return {"scores": {str(state["passages"][0].id): score_of(reply)}}

    return judge(components)


def score_of(reply: Reply[Any]) -> float:
    """Return the log-odds of Yes against No; 0 where the judge says neither."""
    chance, form = reply.probability, reply.form
    if chance is None and isinstance(form, Stated):
        sure = int(form.confidence.rstrip("%")) / 100
        chance = sure if form.answer == "Yes" else 1 - sure
    chance = min(max(0.5 if chance is None else chance, 1e-9), 1 - 1e-9)
    return math.log(chance / (1 - chance))


def filter_passages(state: MainRagState, runtime: Runtime[MainRagOptions]) -> RAGState:
    """Keep what the final predictor reads: the passages at the judge bar or above it, the best first."""
    scores = state["scores"]
    values = [scores.get(str(doc.id), 0.0) for doc in state["passages"]]
    bar = statistics.fmean(values) - runtime.context.n * statistics.pstdev(values)
    ordered = sorted(zip(values, state["passages"], strict=True), key=lambda pair: -pair[0])
    best = with_ranks(doc for score, doc in ordered if score >= bar - 1e-9)
    notes = [note("judge_bar", scores=dict(scores), kept=[doc.id for doc in best])]
    return {"passages": arranged(best, runtime.context.order), "notes": notes}


@method(
    "main_rag",
    paper="Chang et al. 2025, MAIN-RAG",
    when="Noisy passages, with a model that judges them well or a decision model as its judge.",
    group="noisy passages",
    calls=lambda o: (2 * o.k + o.samples,) * 2,
    options=MainRagOptions,
    state=MainRagState,
    prompts=PROMPTS,
)
def main_rag(graph: Graph, components: Components) -> None:
    """An answer from each passage is judged; passages above an adaptive threshold are read together."""
    add_retrieval(graph, components)
    graph.add_node("predict", answer_node(components, "predict", "post_fusion", one_passage=True))
    graph.add_node("predicted", join)
    graph.add_node("judge", judge_node(components))
    graph.add_node("filter", filter_passages)
    graph.add_conditional_edges("collect", each_passage("predict"), {"each passage": "predict", "no passage": "vote"})
    graph.add_edge("predict", "predicted")
    graph.add_conditional_edges("predicted", to_judges, ["judge"])
    graph.add_edge("judge", "filter")
    add_answer(graph, components, "filter", "final", "concat", drafts="predict", round=1)
