"""DOS RAG: as many passages as a token budget holds, in the order of their documents. One call.

Source: Laitenberger et al. 2025 (Stronger Baselines for Retrieval-Augmented Generation with
Long-Context Language Models, arXiv 2506.03989), the baseline Document's Original Structure RAG. The
paper sweeps budgets from 1,500 to 40,000 tokens; DOS RAG is ahead of the multi-stage pipelines above
5,000 (figure 1). The released code retrieves a passage for every 50 tokens of the budget, and stops at
the first that does not fit.

Where we differ: the paper asks about one long document; here a question may find passages of several.
Each document's passages stand together, and the documents come in the order of their best passage.
Tokens are estimated, and the best passage is kept even if it is longer than the budget.
"""

from collections.abc import Sequence
from typing import Any

from langchain_core.documents import Document
from langgraph.runtime import Runtime
from pydantic import Field

from ragweave.graphs.base import Graph, method
from ragweave.nodes.answer import add_answer, together
from ragweave.nodes.queries import SearchOptions, add_retrieval
from ragweave.nodes.runner import Components
from ragweave.nodes.segments import within_budget
from ragweave.state import RAGState, note

TOKENS_PER_PASSAGE = 50
"""Tokens of the budget for which a passage is retrieved (released code)."""


class DosRagOptions(SearchOptions):
    own_paper = "dos_rag"

    k: int = Field(
        5000 // TOKENS_PER_PASSAGE,
        ge=1,
        description="Passages to choose from; unless it is set, one for every 50 tokens of the budget (released code).",
    )
    token_budget: int | None = Field(
        5000, ge=1, description="Maximum tokens of the passages in the prompt, as estimated; none: all that are found."
    )
    document_order: bool = Field(
        True,
        description="Whether passages stand as in their documents; else as retrieved (Vanilla RAG) and by `order`.",
    )

    def derived(self) -> dict[str, Any]:
        """Add `k`, which follows from the budget unless a paper fixes it."""
        by_budget = {"k": max(self.token_budget // TOKENS_PER_PASSAGE, 1)} if self.token_budget else {}
        return {**by_budget, **super().derived()}


def restore(state: RAGState, *, runtime: Runtime[DosRagOptions]) -> RAGState:
    """Cut the passages to the budget and restore their documents' order."""
    passages, options = state["passages"], runtime.context
    best = within_budget(passages, options.token_budget)
    notes = [note("passages_trimmed", passages=len(passages), kept=len(best))] if len(best) < len(passages) else []
    return {"passages": in_document_order(best) if options.document_order else best, "notes": notes}


def in_document_order(passages: Sequence[Document]) -> list[Document]:
    """Return passages document by document, in each as they stand there; those of unknown place come last."""
    documents: dict[Any, list[Document]] = {}
    for passage in sorted(passages, key=lambda doc: int(doc.metadata["rank"])):
        documents.setdefault(_document_of(passage), []).append(passage)
    return [passage for parts in documents.values() for passage in sorted(parts, key=_place)]


def _document_of(passage: Document) -> Any:
    """Return what identifies a passage's document; a file of many untitled texts is one document per line."""
    source, title, line = (str(passage.metadata.get(name) or "") for name in ("source", "title", "line"))
    return (source, title or line) if source or title else passage.id


_PLACES = ("position", "line", "page", "start", "start_index")
"""Where a passage stands, from coarse to fine: the knowledge base's names, and LangChain's."""


def _place(passage: Document) -> tuple[float, ...]:
    places = (passage.metadata.get(name) for name in _PLACES)
    return tuple(place if isinstance(place, int | float) else float("inf") for place in places)


@method(
    "dos_rag",
    paper="Laitenberger et al. 2025, DOS RAG",
    when="A model with a long context, and documents cut into passages: the simple baseline that multi-stage methods "
    "have to beat at the same number of tokens.",
    group="start here",
    calls=lambda o: (o.samples, o.samples),
    options=DosRagOptions,
)
def dos_rag(graph: Graph, components: Components) -> None:
    """As many passages as the budget holds, in the order of their documents."""
    add_retrieval(graph, components)
    graph.add_node("restore", restore)
    graph.add_edge("collect", "restore")
    add_answer(graph, components, "restore", "concat", "concat", together)
