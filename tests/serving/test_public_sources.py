"""Where passages come from, as a remote caller sees it."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from tests.scripted import OwnListRetriever

from ragweave.serving.public_sources import PublicSources


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("/home/me/docs/a/x.txt", "a/x.txt"),
        ("/home/me/x.txt", "x.txt"),
        ("/home/me/docs/../secret/x.txt", "x.txt"),
        ("file:///home/me/docs/a/x.txt", "a/x.txt"),
        ("file:///home/me/my%20notes/x.txt", "x.txt"),
        ("FILE://localhost/home/me/x.txt", "x.txt"),
        ("file:/home/me/x.txt", "x.txt"),
        ("file:///C:/Users/me/x.txt", "x.txt"),
        ("file://C:\\Users\\me\\x.txt", "x.txt"),
        ("C:\\Users\\me\\x.txt", "x.txt"),
        ("C:/Users/me/x.txt", "x.txt"),
        ("\\\\server\\share\\me\\x.txt", "x.txt"),
        ("https://example.org/a/x.txt", "https://example.org/a/x.txt"),
        ("notes/x.txt", "notes/x.txt"),
        ("A: a title", "A: a title"),
        ("", ""),
    ],
)
def test_no_directory_of_the_server_is_shown(source: str, shown: str) -> None:
    inner = OwnListRetriever(documents=[Document("x", metadata={"source": source})])
    (found,) = PublicSources(inner=inner, folder="/home/me/docs").invoke("x")
    assert found.metadata["source"] == shown
