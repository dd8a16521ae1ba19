"""The glossary: the articles that the package brings."""

from __future__ import annotations

from ragweave.corpus import corpus_documents


def glossary_page() -> str:
    """Return the page, a section an article."""
    parts = [
        "# Glossary",
        "The articles of the demo knowledge base (`ragweave index --bundled --kb kb`). Each one "
        "starts with a definition.",
    ]
    for article in sorted(corpus_documents(), key=lambda doc: doc.metadata["title"].casefold()):
        body = "\n\n".join(
            " ".join(paragraph.split()) for paragraph in article.page_content.split("\n\n")
        )
        parts += [f"## {article.metadata['title']}", body]
    return "\n\n".join(parts) + "\n"
