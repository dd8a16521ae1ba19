"""Passages within a budget, and back in the order of their documents."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from tests.loops import events, final_state
from tests.scripted import ListRetriever, ScriptedChat, documents

from ragweave import build_graph
from ragweave.nodes.document_order import DosRagOptions, in_document_order, within_budget
from ragweave.nodes.options import specialised
from ragweave.nodes.retrieve import arranged
from ragweave.tools.knowledge import KnowledgeBase, Settings
from ragweave.tools.text.normalize import estimate_tokens


def passage(name: str, rank: int, source: str = "a.txt", **meta: Any) -> Document:
    return Document(f"Text {name}.", id=name, metadata={"rank": rank, "source": source, **meta})


def ids(passages: list[Document]) -> list[str]:
    return [str(one.id) for one in passages]


def test_a_document_reads_as_it_was_written() -> None:
    found = [
        passage("third", 0, start=90),
        passage("first", 1, start=0),
        passage("second", 2, start=40),
    ]
    assert ids(in_document_order(found)) == ["first", "second", "third"]


def test_documents_come_in_the_order_of_their_best_passage() -> None:
    found = [
        passage("b2", 0, "b.txt", start=50),
        passage("a2", 1, "a.txt", start=50),
        passage("a1", 2, "a.txt", start=0),
        passage("b1", 3, "b.txt", start=0),
    ]
    assert ids(in_document_order(found)) == ["b1", "b2", "a1", "a2"]


def test_titled_texts_of_one_file_are_documents_of_their_own() -> None:
    found = [
        passage("oslo 2", 0, "wiki.jsonl", title="Oslo", line=8),
        passage("rome 1", 1, "wiki.jsonl", title="Rome", line=2),
        passage("oslo 1", 2, "wiki.jsonl", title="Oslo", line=7),
    ]
    assert ids(in_document_order(found)) == ["oslo 1", "oslo 2", "rome 1"]


def test_passages_of_no_document_stay_as_ranked() -> None:
    bare = [Document(f"Text {n}.", id=f"p{n}", metadata={"rank": n}) for n in range(4)]
    assert in_document_order(bare) == bare


def test_given_passages_stay_as_given_whatever_order_the_prompt_asks_for() -> None:
    bare = [Document(f"Text {n}.", id=f"p{n}") for n in range(4)]
    moved = arranged(bare, "reversed")
    assert ids(in_document_order(moved)) == ids(bare)
    assert ids(within_budget(moved, 2 * estimate_tokens("Text 0."))) == ["p1", "p0"]


def test_the_knowledge_base_says_where_a_passage_stands(tmp_path: Any) -> None:
    text = tmp_path / "long.txt"
    sentences = [f"Sentence {n} tells of the lighthouse keeper of Norhaven." for n in range(40)]
    text.write_text(" ".join(sentences), "utf-8")
    settings = Settings(size=40, embedding=None)
    with KnowledgeBase.create(tmp_path / "kb", settings=settings) as kb:
        kb.index_paths([text])
        found = kb.as_retriever().invoke("Sentence 31 lighthouse keeper", k=8)
    places = [one.metadata["position"] for one in found]
    assert len(set(places)) == len(found) > 2
    ordered = in_document_order(found)
    assert [one.metadata["position"] for one in ordered] == sorted(places)
    starts = [one.metadata["start"] for one in ordered]
    assert starts == sorted(starts)


@pytest.mark.parametrize(
    ("options", "k"),
    [
        ({}, 100),
        ({"token_budget": 20_000}, 400),
        ({"token_budget": 1_500}, 30),
        ({"token_budget": 10}, 1),
        ({"token_budget": None}, 100),
        ({"token_budget": 20_000, "k": 100}, 100),
        ({"token_budget": 20_000, "profile": "dos_rag"}, 400),
        ({"token_budget": 20_000, "profile": "blendfilter"}, 5),
    ],
)
def test_a_budget_is_filled_unless_k_is_set(options: dict[str, Any], k: int) -> None:
    assert DosRagOptions(**options).k == k
    assert specialised(DosRagOptions())(**options).k == k


@pytest.mark.parametrize(
    ("options", "noted"),
    [
        ({"k": 4, "token_budget": 1_000}, ["budget_unfilled"]),
        ({"k": 4, "token_budget": 40}, []),
        ({"k": 4, "token_budget": 30}, ["passages_trimmed"]),
        ({"token_budget": 1_000}, []),
        ({"k": 4, "token_budget": None}, []),
    ],
)
def test_a_budget_that_k_leaves_unfilled_is_noted(
    options: dict[str, Any], noted: list[str]
) -> None:
    found = ListRetriever(documents=documents(*(f"{n}" * 40 for n in range(9))))
    graph = build_graph("dos_rag", model=ScriptedChat(), retriever=found, **options)
    state = final_state(graph, "Who?")
    assert [one for one in events(state) if one != "order_unknown"] == noted
    given = graph.invoke({"question": "Who?", "passages": ["One."]})
    assert given["passages"][0].page_content == "One."


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50), st.integers(1, 60)), max_size=12),
    st.none() | st.integers(1, 80),
)
def test_order_loses_nothing_and_the_budget_holds(
    rows: list[tuple[int, int, int]], budget: int | None
) -> None:
    found = [
        Document("x" * size, id=str(n), metadata={"rank": n, "source": f"{file}", "start": start})
        for n, (file, start, size) in enumerate(rows)
    ]
    kept = within_budget(found, budget)
    assert kept == found[: len(kept)]
    if budget is not None and len(kept) > 1:
        assert sum(estimate_tokens(one.page_content) for one in kept) <= budget
    assert len(kept) > 0 or not found
    assert sorted(ids(in_document_order(kept))) == sorted(ids(kept))
