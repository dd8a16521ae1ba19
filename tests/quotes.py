"""A check that citations say of answer and passages what stands there, word for word."""

from __future__ import annotations

from collections.abc import Iterable

from langchain_core.documents import Document

from ragweave.state import Citation


def check_citations(answer: str, passages: Iterable[Document], citations: Iterable[Citation]) -> None:
    texts = {doc.id or "": doc.page_content for doc in passages}
    for citation in citations:
        assert answer[citation["start"] : citation["end"]] == citation["text"]
        for quote in citation["quotes"]:
            assert texts[quote["passage"]][quote["start"] : quote["end"]] == quote["text"]
