"""The reference budget: how much of what was found goes into the prompt.

Source: SlimPLM, released code: at most 20 passages, then two fewer at a time, from the end, until
the reference takes no more than 3,000 tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.documents import Document
from langgraph.types import Overwrite

from ragweave.nodes.options import Options, at_least
from ragweave.nodes.step import Context, Step, Work, pure
from ragweave.state import RAGState
from ragweave.tools.text.tokens import estimate_tokens


@dataclass(frozen=True, kw_only=True)
class BudgetOptions(Options):
    """How long the reference may be."""

    max_passages: int | None = 20
    """Most passages in the answer's prompt; None: no limit."""
    token_budget: int | None = 3000
    """Most tokens (estimated) of these passages; None: no limit."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is out of its range.
        """
        super().__post_init__()
        at_least("max_passages", self.max_passages, 1)
        at_least("token_budget", self.token_budget, 1)


def trim_step(options: BudgetOptions) -> Step[RAGState, BudgetOptions]:
    """Return the node `trim`: cuts `passages` to the budget and notes `passages_trimmed`."""

    def body(state: RAGState, context: Context[BudgetOptions]) -> Work:
        opts = context.options
        kept = trimmed(state["passages"], opts.max_passages, opts.token_budget)
        if len(kept) == len(state["passages"]):
            return pure({})
        context.note("passages_trimmed", passages=len(state["passages"]), kept=len(kept))
        return pure({"passages": Overwrite(kept)})

    return Step("trim", body, options)


def trimmed(passages: Sequence[Document], most: int | None, tokens: int | None) -> list[Document]:
    """Return the best passages within the budget, in the order given; at least one.

    The lowest ranks go first, and of one rank the last: the end of an interleaved list.
    """
    order = sorted(
        range(len(passages)), key=lambda at: (passages[at].metadata.get("rank", at), at)
    )[:most]
    while tokens is not None and len(order) > 1 and _tokens(passages, order) > tokens:
        order = order[: max(1, len(order) - 2)]
    return [passages[at] for at in sorted(order)]


def _tokens(passages: Sequence[Document], order: Sequence[int]) -> int:
    return sum(estimate_tokens(passages[at].page_content) for at in order)
