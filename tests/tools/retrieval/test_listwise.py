"""Listwise reranking by a chat model, and its calls in `usage`."""

from __future__ import annotations

import asyncio
import re

import pytest
from langchain_core.documents import Document

from ragweave.graphs import build_graph
from ragweave.testing import ModelCall, RecordingRetriever, ScriptedModel
from ragweave.tools.retrieval import Bm25Retriever, ListwiseReranker, RerankRetriever
from ragweave.tools.retrieval.reranking import load_reranker


def documents(count: int) -> list[Document]:
    return [Document(f"Stone number {number}.", id=str(number)) for number in range(count)]


def shown(call: ModelCall) -> list[int]:
    return [int(number) for number in re.findall(r"Stone number (\d+)", call.last)]


def by_number(call: ModelCall) -> str:
    """Rank the highest stone numbers first."""
    numbers = shown(call)
    return " > ".join(f"[{numbers.index(number) + 1}]" for number in sorted(numbers, reverse=True))


def test_the_window_slides_from_the_last_passages_to_the_first() -> None:
    model = ScriptedModel(script=by_number)
    ranking = ListwiseReranker(model=model).compress_documents(documents(45), "which stone?")
    assert [len(shown(call)) for call in model.calls] == [20, 20, 20, 15]
    assert shown(model.calls[1]) == [*range(15, 25), *range(44, 34, -1)]
    assert [doc.id for doc in ranking[:10]] == [str(number) for number in range(44, 34, -1)]
    assert {doc.id for doc in ranking} == {doc.id for doc in documents(45)}


@pytest.mark.parametrize(
    ("reply", "order"),
    [
        ("[3] > [1]", "2 0 1"),
        ("<think>[1] first?</think>[2] > [9] > [2] > [3]", "1 2 0"),
        ("I can't.", "0 1 2"),
        ("", "0 1 2"),
    ],
)
def test_what_a_reply_does_not_name_stays_behind(reply: str, order: str) -> None:
    ranking = ListwiseReranker(model=ScriptedModel(script=[reply])).compress_documents(documents(3), "which?")
    assert " ".join(str(doc.id) for doc in ranking) == order


def test_passages_are_cut_to_the_context() -> None:
    model = ScriptedModel(script=["[1]"], profile={"max_input_tokens": 400, "structured_output": False})
    ListwiseReranker(model=model).compress_documents(
        [Document("word " * 900, id=str(number)) for number in range(2)], "q"
    )
    assert 50 < model.calls[0].last.count("word") < 260
    assert model.calls[0].settings["max_tokens"] == 12


def test_it_reranks_by_its_spec() -> None:
    assert isinstance(load_reranker("listwise:extractive"), ListwiseReranker)


@pytest.mark.parametrize("is_async", [False, True])
def test_calls_of_a_retriever_count_in_usage(is_async: bool) -> None:
    ranking = ScriptedModel(script=["[3] > [2] > [1]"], role="retriever")
    finder = RerankRetriever.over(RecordingRetriever(), ListwiseReranker(model=ranking), depth=3)
    graph = build_graph("concat", model=ScriptedModel(script=["Ada Brenner"]), retriever=finder, k=2)
    given = {"question": "Who built the bridge at Alden?"}
    out = asyncio.run(graph.ainvoke(given)) if is_async else graph.invoke(given)
    usage, read = out["usage"], 3 + len(ranking.calls[0].text.split())
    assert (usage["calls"], usage["retrievals"], ranking.calls[0].node) == (2, 1, "retrieve")
    assert (
        usage["by_role"]["retriever"]
        == usage["by_node"]["retrieve"]
        == {"calls": 1, "input_tokens": read, "output_tokens": 6}
    )
    assert [passage.id for passage in out["passages"]] == [
        passage.id for passage in RecordingRetriever().invoke(given["question"], k=3)[:0:-1]
    ]
    assert (
        "retriever"
        not in build_graph("concat", retriever=Bm25Retriever.from_documents(documents(3))).invoke(given)["usage"][
            "by_role"
        ]
    )
