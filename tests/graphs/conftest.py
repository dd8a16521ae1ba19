"""What graph tests share."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document

from ragweave.corpus import corpus_path
from ragweave.tools.retrieval import Bm25Retriever


@pytest.fixture(scope="session")
def demo_corpus() -> Bm25Retriever:
    """Return a retriever over the demo corpus, an article a passage."""
    return Bm25Retriever.from_documents(
        [
            Document(page_content=path.read_text(), metadata={"title": path.stem}, id=path.stem)
            for path in sorted(corpus_path().glob("*.md"))
        ]
    )
