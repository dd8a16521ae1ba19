"""The demo corpus: short Markdown articles on RAG, its methods and terms; also the docs' glossary.

Each article is one `.md` file named after its title, starts with a one-sentence definition of
the title's term, and writes one sentence a line. The articles are an ordinary folder of
documents: build a knowledge base from `corpus_path()` to have something to ask about.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

__all__ = ["corpus_path"]


def corpus_path() -> Path:
    """Return the folder of the bundled articles (`*.md`, UTF-8)."""
    return Path(str(resources.files(__name__) / "articles"))
