"""What a context filter is: passages in, kept spans out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from langchain_core.documents import Document

from ragweave.tools.filters.spans import Span


@runtime_checkable
class ContextFilter(Protocol):
    """Chooses the spans of passages that help to answer; any trained filter fits too.

    Used with the gold answers it is FILCO's oracle, which makes training labels and, at test
    time, the SILVER upper bound. Used with the question alone it is an untrained stand-in for
    the paper's trained filter, not that filter.
    """

    def keep(
        self,
        question: str,
        passages: Sequence[Document],
        *,
        answers: Sequence[str] | None = None,
    ) -> list[Span]:
        """Return the kept spans, best first; none where nothing helps.

        Args:
            question: The question as asked.
            passages: Best first.
            answers: Gold answers (oracle), or a heuristic answer; None or empty: there are none.
        """
        ...
