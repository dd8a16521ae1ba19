"""SKR-KNN: retrieve if most of the nearest training questions needed it. One call.

Source: Wang et al. 2023 (Self-Knowledge Guided Retrieval Augmentation for Large Language Models), as SlimPLM's
baseline (section 4.3): eight neighbours by unsupervised SimCSE; a training question needs retrieval if the answer with
passages has more of the right answers' aliases than the answer without, and ties are dropped (released code).

Where we differ: sentence-transformers averages SimCSE's token vectors, the released code takes its pooler's; with
`fallback_retrieval`, the method retrieves after all if the answer without passages is Unknown. `label needed` writes
the training questions by the released rule, but asks in our prompts, and by default over five passages instead of twenty.
"""

from functools import cache
from threading import Lock
from typing import ClassVar

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langgraph.runtime import Runtime
from pydantic import Field, StrictBool, TypeAdapter
from typing_extensions import TypedDict

from ragweave.datasets.rows import rows_of
from ragweave.errors import UsageError
from ragweave.graphs.base import Graph, method
from ragweave.graphs.self_eval import DecisionOptions, DecisionState, add_decision, to_decision
from ragweave.nodes.runner import Components, StateNode
from ragweave.state import RAGState, note
from ragweave.tools.embeddings.named import named_embeddings
from ragweave.tools.retrieval import DenseRetriever


class SkrKnnOptions(DecisionOptions):
    paper_settings: ClassVar = {
        "slimplm": {"neighbours": 8, "embedding": "princeton-nlp/unsup-simcse-bert-base-uncased"}
    }

    training: str = Field("", description='Path of the training questions: JSONL, {"question": …, "needed": true}.')
    neighbours: int = Field(5, ge=1, description="How many of the nearest training questions decide.")
    prior: float | None = Field(
        0.5,
        ge=0,
        le=1,
        description="Retrieve if at least this share of the neighbours needed it: 0.5 is a majority, and a tie "
        "retrieves; none: the share of all training questions.",
    )
    embedding: str = Field(
        "minilm", description="Embedding model, if the build gives none: minilm, a path or a hub name."
    )


class TrainingQuestion(TypedDict):
    """A row of the training file."""

    question: str
    needed: StrictBool


def neighbours_node(embeddings: Embeddings | None) -> StateNode:
    """Return the node `neighbours`, which decides by the nearest training questions, without a model."""
    lock = Lock()

    @cache
    def loaded(training: str, embedding: str) -> tuple[DenseRetriever, float]:
        """Return the questions, embedded, and the share of them that needed retrieval."""
        rows = rows_of(training, TypeAdapter(TrainingQuestion))
        questions = [Document(row["question"], metadata={"needed": row["needed"]}) for row in rows]
        share = sum(row["needed"] for row in rows) / len(rows)
        return DenseRetriever.from_documents(questions, embeddings or named_embeddings(embedding)), share

    def neighbours(state: RAGState, runtime: Runtime[SkrKnnOptions]) -> DecisionState:
        o = runtime.context
        if not o.training:
            raise UsageError(
                'skr_knn needs training questions: training=PATH of a JSONL file with rows {"question": …, "needed": true}'
            )
        with lock:
            questions, share_needed = loaded(o.training, o.embedding)
        nearest = questions.search(state["question"], o.neighbours)
        share = sum(question.metadata["needed"] for question in nearest) / len(nearest)
        prior = share_needed if o.prior is None else o.prior
        texts = [question.page_content for question in nearest]
        return {"known": share < prior, "notes": [note("neighbours", share=share, prior=prior, questions=texts)]}

    return neighbours


@method(
    "skr_knn",
    paper="Wang et al. 2023, SKR",
    when="Where you have training questions labelled with whether retrieval helped (`ragweave label needed`).",
    group="when to retrieve",
    calls=lambda o: (o.samples, (1 + o.fallback_retrieval) * o.samples),
    options=SkrKnnOptions,
    state=DecisionState,
    files=frozenset({"training", "embedding"}),
)
def skr_knn(graph: Graph, components: Components) -> None:
    """Retrieve where most of the nearest training questions needed it."""
    graph.add_node("neighbours", neighbours_node(components.embeddings))
    graph.add_conditional_edges("begin", to_decision, {"decide": "neighbours", "passages given": "collect"})
    add_decision(graph, components, "neighbours")
