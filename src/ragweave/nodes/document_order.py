"""DOS RAG: as many passages as the budget holds, put back into the order of their documents.

Source: Laitenberger et al. 2025 (Stronger Baselines for Retrieval-Augmented Generation with
Long-Context Language Models, arXiv 2506.03989): passages of up to 100 tokens are retrieved, best
first, until the token budget is full, and then stand in the prompt in their original order. The
paper sweeps budgets from 1,500 to 40,000 tokens; DOS RAG is ahead of the multi-stage pipelines
above 5,000 (figure 1). The released code retrieves a passage for every 50 tokens of the budget
(100 for 5,000), as its passages of whole sentences have 50 to 100 tokens, and stops at the first
that does not fit.

The paper asks about one long document a question. Here a question may find passages of several:
each document's passages stand together, and the documents come in the order of their best passage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.documents import Document
from langgraph.types import Overwrite

from ragweave.nodes.options import Options, at_least
from ragweave.nodes.profile import Paper
from ragweave.nodes.step import Context, Step, Work, pure
from ragweave.state import RAGState
from ragweave.state.passages import best_first
from ragweave.tools.text.normalize import estimate_tokens

_TOKENS_A_PASSAGE = 50
"""Tokens of the budget for which a passage is retrieved (released code)."""


@dataclass(frozen=True, kw_only=True)
class DosRagOptions(Options):
    """Options of `dos_rag`."""

    k: int = 5000 // _TOKENS_A_PASSAGE
    """Passages to choose from; where it is not set, one for every 50 tokens of `token_budget`, as in
    the released code (100 for 5,000)."""
    token_budget: int | None = 5000
    """Most tokens (estimated) of the passages in the prompt; None: as many as were found. The
    model's context bounds them too (`prompt_tokens`)."""
    document_order: bool = True
    """Whether passages stand as in their documents; without it, as retrieved (the paper's Vanilla
    RAG), and `order` applies."""

    @property
    def own_paper(self) -> Paper:
        """DOS RAG."""
        return "dos_rag"

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is out of its range.
        """
        super().__post_init__()
        at_least("token_budget", self.token_budget, 1)
        if self.token_budget is not None and not {"k"} & (self.given | self.settled):
            object.__setattr__(self, "k", max(self.token_budget // _TOKENS_A_PASSAGE, 1))


def restore_step(options: DosRagOptions) -> Step[RAGState, DosRagOptions]:
    """Return the node `restore`: cuts `passages` to the budget and restores their order.

    Notes `passages_trimmed` where the budget leaves some out, `budget_unfilled` where the k passages
    leave room for another, and `order_unknown` where passages of one document say nothing of their
    places.
    """

    def body(state: RAGState, context: Context[DosRagOptions]) -> Work:
        opts, found = context.options, state["passages"]
        kept = within_budget(found, opts.token_budget)
        if len(kept) < len(found):
            context.note("passages_trimmed", passages=len(found), kept=len(kept))
        elif _short_of(state, opts):
            context.note("budget_unfilled", passages=len(found), tokens=_tokens(found))
        if not opts.document_order:
            return pure({"passages": Overwrite(kept)})
        if unplaced := _unplaced(kept):
            context.note("order_unknown", passages=unplaced)
        return pure({"passages": Overwrite(in_document_order(kept))})

    return Step("restore", body, options)


def _short_of(state: RAGState, options: DosRagOptions) -> bool:
    """Say whether k, and not the budget, bounds the passages: another one would have had room."""
    found, budget = state["passages"], options.token_budget
    if budget is None or not any(len(one) >= options.k for one in state["retrieved"].values()):
        return False
    return _tokens(found) * (len(found) + 1) <= budget * len(found)


def _tokens(passages: Sequence[Document]) -> int:
    return sum(estimate_tokens(one.page_content) for one in passages)


def within_budget(passages: Sequence[Document], tokens: int | None) -> list[Document]:
    """Return the best-ranked passages that a budget holds, at least one, in the order given."""
    if tokens is None:
        return list(passages)
    left, kept = tokens, set[int]()
    for index in best_first(passages):
        left -= estimate_tokens(passages[index].page_content)
        if left < 0 and kept:
            break
        kept.add(index)
    return [passage for index, passage in enumerate(passages) if index in kept]


def in_document_order(passages: Sequence[Document]) -> list[Document]:
    """Return passages document by document, in each as they stand there.

    Documents come in the order of their best-ranked passage. Passages whose metadata has no place
    stay behind those of their document that have one, as they were given.
    """
    documents: dict[object, list[Document]] = {}
    for passage in (passages[index] for index in best_first(passages)):
        documents.setdefault(_document_of(passage), []).append(passage)
    return [passage for one in documents.values() for passage in sorted(one, key=_place)]


def _document_of(passage: Document) -> object:
    """Return what tells a passage's document: its source and title, as the knowledge base has them.

    A file of many untitled texts is one document a line.
    """
    meta = passage.metadata
    source, title = str(meta.get("source") or ""), str(meta.get("title") or "")
    if not source and not title:
        return passage.id or passage.page_content
    return source, title or str(meta.get("line") or "")


_PLACES = ("position", "line", "page", "start", "start_index")
"""Where a passage stands, from coarse to fine: the knowledge base's names, and LangChain's."""


def _place(passage: Document) -> tuple[float, ...]:
    return tuple(_number(passage.metadata, name) for name in _PLACES)


def _number(metadata: Mapping[str, Any], name: str) -> float:
    value = metadata.get(name)
    return value if isinstance(value, int | float) else float("inf")


def _unplaced(passages: Sequence[Document]) -> int:
    """Count the passages of no known place in documents that have several."""
    sizes: dict[object, int] = {}
    for one in map(_document_of, passages):
        sizes[one] = sizes.get(one, 0) + 1
    return sum(
        sizes[_document_of(one)] > 1 and min(_place(one)) == float("inf") for one in passages
    )
