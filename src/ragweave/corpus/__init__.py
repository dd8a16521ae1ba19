"""The demo corpus: short Markdown articles on RAG, its methods and terms; also the docs' glossary.

Each article is one `.md` file named after its title, starts with a one-sentence definition of
the title's term, and writes one sentence a line. The articles are an ordinary folder of
documents: build a knowledge base from `corpus_path()` to have something to ask about.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langchain_core.documents import Document

__all__ = ["corpus_documents", "corpus_path"]


def corpus_path() -> Path:
    """Return the folder of the bundled articles (`*.md`, UTF-8)."""
    return Path(str(resources.files(__name__) / "articles"))


def corpus_documents() -> list[Document]:
    """Return the articles as documents, one each, sorted by file name.

    `metadata` holds `title` and `source` (the file's name).
    """
    from langchain_core.documents import Document

    documents = []
    for path in sorted(corpus_path().glob("*.md")):
        title, _, body = path.read_text("utf-8").partition("\n")
        metadata = {"title": title.lstrip("# ").strip(), "source": path.name}
        documents.append(Document(page_content=body.strip(), metadata=metadata))
    return documents
