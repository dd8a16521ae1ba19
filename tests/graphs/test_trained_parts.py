"""Trained parts in the papers' graphs: what they decide, and what is refused before anything runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langgraph.checkpoint.memory import InMemorySaver
from tests.scripted import ListRetriever, ScriptedChat
from tests.tiny_parts import finish, make_scorer, make_writer, word_tokenizer

from ragweave import build_graph
from ragweave.errors import UsageError
from ragweave.tools.filters import spans_of
from ragweave.tools.models.tasks import task_passages
from ragweave.trained.chat import PartChat
from ragweave.trained.filter import TrainedFilter
from ragweave.trained.forms import documents, generator_input, judge_input
from ragweave.trained.pairs import form_of

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

QUESTION = "Who designed the Cedar Bridge?"
BRIDGE = "Cedar Bridge opened in 1934. The Cedar Bridge was designed by Ada Moreno. It is long."
RIVER = "The river Osk is wide. Salmon live in it."
PASSAGES = [
    Document(page_content=BRIDGE, id="bridge", metadata={"title": "Cedar Bridge"}),
    Document(page_content=RIVER, id="river"),
]
DESIGNED = "The Cedar Bridge was designed by Ada Moreno."
OPENED = "Cedar Bridge opened in 1934."
KNOWN, UNKNOWN = "Ada Moreno designed it.", "I am not sure."
CLAIM, CLAIM_QUERY = "It opened in 1934.", "year of the Cedar Bridge"
KNOWN_CLAIM, KNOWN_QUERY = "It is a bridge.", "what is the Cedar Bridge"
REWRITE = f"<Claim> {CLAIM} <Query> {CLAIM_QUERY} <Claim> {KNOWN_CLAIM} <Query> {KNOWN_QUERY}"


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A judge, a filter, a rewriter and a generator."""
    root = tmp_path_factory.mktemp("parts")
    make_scorer(
        root / "judge",
        "judge",
        [
            (QUESTION, KNOWN, True),
            (QUESTION, UNKNOWN, False),
            (CLAIM_QUERY, CLAIM, False),
            (KNOWN_QUERY, KNOWN_CLAIM, True),
        ],
    )
    words = set(" ".join([QUESTION, "Cedar Bridge", BRIDGE, RIVER]).lower().split())
    spans = spans_of(PASSAGES)
    pairs = form_of(word_tokenizer(words)).pairs(QUESTION, task_passages(PASSAGES), spans)
    good = (DESIGNED, OPENED)
    labelled = [(a, b, s["text"] in good) for (a, b), s in zip(pairs, spans, strict=True)]
    make_scorer(root / "filter", "filter", labelled)
    make_writer(root / "rewriter", "rewriter", {judge_input(QUESTION, UNKNOWN).text: REWRITE})
    kept = documents([{"id": "bridge", "title": "Cedar Bridge", "text": f"{OPENED} {DESIGNED}"}])
    make_writer(
        root / "generator", "generator", {generator_input(QUESTION, kept).text: "Ada Moreno"}
    )
    return root


def proxy(draft: str) -> ScriptedChat:
    """A small model that drafts, and does nothing else."""

    def reply(seen: Any) -> str:
        assert seen.task["task"] == "recall", "the trained parts do the rest"
        return draft

    return ScriptedChat(replies=reply)


def run(method: str, **given: Any) -> dict[str, Any]:
    """Run once and return the whole final state."""
    given = {
        "model": ScriptedChat(replies=["Ada Moreno"]),
        "retriever": ListRetriever(documents=PASSAGES),
        **given,
    }
    graph = build_graph(method, checkpointer=InMemorySaver(), **given)
    config: Any = {"configurable": {"thread_id": "t"}}
    graph.invoke({"question": QUESTION}, config)
    return dict(graph.get_state(config).values)


def events(state: dict[str, Any]) -> list[str]:
    return [note["event"] for note in state["notes"]]


def texts(state: dict[str, Any]) -> list[str]:
    return [one.page_content for one in state["passages"]]


def test_slimplm_answers_directly_what_the_judge_knows(parts: Path) -> None:
    state = run("slimplm", proxy=proxy(KNOWN), judge=f"{parts}/judge/")
    assert state["known"] is True
    assert (state["passages"], state["usage"]["retrievals"]) == ([], 0)
    assert state["usage"]["by_node"]["judge"]["calls"] == 1
    assert state["usage"]["by_role"]["judge"]["input_tokens"] > 5
    assert state["usage"]["by_role"]["judge"]["output_tokens"] == 0
    assert events(state) == ["answered_without_documents"]


def test_slimplm_searches_for_what_the_judge_does_not_know(parts: Path) -> None:
    state = run(
        "slimplm",
        proxy=proxy(UNKNOWN),
        judge=f"{parts}/judge",
        rewriter=f"part:{parts}/rewriter",
    )
    assert state["known"] is False
    assert [one["query"] for one in state["claims"]] == [CLAIM_QUERY, KNOWN_QUERY]
    assert list(state["verdicts"].values()) == [False, True]
    assert list(state["queries"].values()) == [QUESTION, CLAIM_QUERY], "the known claim is not"
    assert state["usage"]["retrievals"] == 2
    assert texts(state) == [BRIDGE, RIVER]
    assert events(state) == ["draft_unknown"]


def test_the_threshold_turns_the_branch(parts: Path) -> None:
    state = run("slimplm", proxy=proxy(KNOWN), judge=f"{parts}/judge?threshold=1", rewrite=False)
    assert state["known"] is False
    state = run("slimplm", proxy=proxy(UNKNOWN), judge=PartChat(f"{parts}/judge", threshold=0.0))
    assert state["known"] is True


def test_the_same_async(parts: Path) -> None:
    graph = build_graph(
        "slimplm",
        model=ScriptedChat(replies=["Ada Moreno"]),
        proxy=proxy(UNKNOWN),
        judge=f"{parts}/judge",
        rewriter=f"{parts}/rewriter",
        retriever=ListRetriever(documents=PASSAGES),
    )
    out = asyncio.run(graph.ainvoke({"question": QUESTION}))
    assert [one.page_content for one in out["passages"]] == [BRIDGE, RIVER]


def test_filco_cuts_passages_with_a_trained_filter(parts: Path) -> None:
    state = run("filco", filter=f"{parts}/filter/")
    assert len(texts(state)) == 1, "FILCO keeps one span unless told otherwise"
    assert texts(state)[0] in (DESIGNED, OPENED)
    state = run("filco", filter=f"{parts}/filter/", top=None)
    assert texts(state) == [f"{OPENED} {DESIGNED}"]
    assert state["usage"]["saved_tokens"] > 0
    assert events(state) == []


def test_a_threshold_that_nothing_reaches_leaves_the_passages_whole(parts: Path) -> None:
    state = run("filco", filter=f"{parts}/filter/", threshold=1.0)
    assert texts(state) == [BRIDGE, RIVER]
    assert "filter_kept_nothing" in events(state)


def test_a_run_may_say_otherwise(parts: Path) -> None:
    graph = build_graph(
        "filco",
        model=ScriptedChat(replies=["Ada Moreno"]),
        retriever=ListRetriever(documents=PASSAGES),
        filter=f"{parts}/filter",
    )
    question = {"question": QUESTION}
    assert len(graph.invoke(question, context={"top": 3})["passages"][0].page_content) > 60
    assert len(graph.invoke(question, context={"filter": "full"})["passages"]) == 2
    with pytest.raises(UsageError, match="threshold must be between 0 and 1"):
        graph.invoke(question, context={"threshold": 7.0})


def test_gold_answers_make_no_oracle_of_a_trained_filter(parts: Path) -> None:
    graph = build_graph(
        "filco",
        model=ScriptedChat(replies=["Ada Moreno"]),
        retriever=ListRetriever(documents=PASSAGES),
        filter=TrainedFilter(f"{parts}/filter", top=None),
        checkpointer=InMemorySaver(),
    )
    config: Any = {"configurable": {"thread_id": "t"}}
    graph.invoke({"question": QUESTION, "gold_answers": ["wide"]}, config)
    state = graph.get_state(config).values
    assert texts(state) == [f"{OPENED} {DESIGNED}"]
    assert "oracle_filter" not in events(state)


def test_filco_as_the_paper_has_it(parts: Path) -> None:
    """M_ctx filters, M_gen answers."""
    state = run("filco", filter=f"{parts}/filter", top=None, model=f"{parts}/generator")
    assert state["answer"] == "Ada Moreno"
    assert state["usage"]["by_role"]["answer"]["output_tokens"] == len("Ada Moreno") + 1


@pytest.mark.parametrize(("draft", "known"), [(KNOWN, True), (UNKNOWN, False)])
def test_adaptive_with_judge_and_filter(parts: Path, draft: str, known: bool) -> None:
    state = run(
        "adaptive",
        proxy=proxy(draft),
        judge=f"{parts}/judge",
        rewriter=f"{parts}/rewriter",
        filter=f"{parts}/filter",
        queries=("question",),
        knowledge_filter=False,
    )
    assert state["known"] is known
    assert texts(state) == ([] if known else [f"{OPENED} {DESIGNED}"])
    assert state["answer"] == "Ada Moreno"


@pytest.mark.parametrize(
    ("argument", "role", "said"),
    [
        ("judge", "filter", "was trained as a filter, but a judge is needed here"),
        ("judge", "generator", "was trained as a generator, but a judge is needed here"),
        ("rewriter", "judge", "was trained as a judge, but a rewriter is needed here"),
        ("model", "judge", "was trained as a judge, but a generator is needed here"),
        ("proxy", "generator", "was trained as a generator, but a model that drafts"),
        ("filter_model", "generator", "was trained as a generator, but a model that names"),
        ("filter", "judge", "was trained as a judge, but a filter is needed here"),
    ],
)
def test_the_role_is_checked_when_the_graph_is_built(
    tmp_path: Path, argument: str, role: Any, said: str
) -> None:
    """By the card alone: there are no weights in this folder."""
    finish(tmp_path / "part", role, "cross-encoder")
    with pytest.raises(UsageError, match=said):
        build_graph("adaptive", **{argument: f"{tmp_path}/part"})


def test_a_generator_drafts_nothing(parts: Path) -> None:
    with pytest.raises(UsageError, match="drafts no answer: name the model that does"):
        build_graph("slimplm", model=f"{parts}/generator", judge=f"{parts}/judge")
    build_graph("slimplm", model=f"{parts}/generator", proxy="extractive")


def test_a_trained_judge_needs_no_scorer_and_no_margin(parts: Path, tmp_path: Path) -> None:
    class Scorer:
        def score(self, pairs: Any) -> list[float]:
            return [0.0 for _ in pairs]

    with pytest.raises(UsageError, match="judges by itself: leave judge_scorer out"):
        build_graph("slimplm", judge=f"{parts}/judge", judge_scorer=Scorer())
    with pytest.raises(UsageError, match=r"leave out margin, or set judge=.*/judge\?threshold="):
        build_graph("slimplm", judge=f"{parts}/judge", margin=5.0)
    make_writer(tmp_path / "judge", "judge", {judge_input(QUESTION, KNOWN).text: "<Known(True)>"})
    with pytest.raises(UsageError, match=r"leave out margin$"):
        build_graph("slimplm", judge=f"{tmp_path}/judge", margin=5.0)
    build_graph("slimplm", judge=f"{parts}/judge", margin=0.0)
    build_graph("slimplm", judge="extractive", margin=5.0)


def test_an_unsafe_part_is_refused_when_the_graph_is_built(tmp_path: Path) -> None:
    folder = finish(tmp_path / "judge", "judge", "cross-encoder")
    (folder / "evil.py").write_text("raise SystemExit", "utf-8")
    with pytest.raises(UsageError, match=r"evil\.py is code"):
        build_graph("slimplm", judge=str(folder))


def test_what_is_no_filter_lists_the_names(tmp_path: Path) -> None:
    names = "filter must be one of lexical, strinc, .*, or the folder of a trained filter, not"
    with pytest.raises(UsageError, match=names):
        build_graph("filco", filter="lexicla")
    with pytest.raises(UsageError, match="no such folder"):
        build_graph("filco", filter=f"{tmp_path}/nowhere")
    with pytest.raises(UsageError, match="is not a trained part"):
        build_graph("filco", filter=str(tmp_path))
    with pytest.raises(UsageError, match="concat has no option 'filter'"):
        build_graph("concat", filter=str(tmp_path))


def lengthened(words: int) -> ListRetriever:
    return ListRetriever(documents=[Document("The bridge is long. " * words, id="long")])


@pytest.mark.parametrize(("words", "noted"), [(1, False), (60, True)])
def test_a_passage_that_a_generator_reads_in_part_is_noted(
    parts: Path, words: int, noted: bool
) -> None:
    given = {"model": f"{parts}/generator/", "retriever": lengthened(words)}
    state = run("filco", filter="full", profile="filco", **given)
    assert ("input_cut" in events(state)) is noted


@pytest.mark.parametrize(("words", "noted"), [(1, False), (60, True)])
def test_a_passage_that_a_writing_filter_reads_in_part_is_noted(
    tmp_path: Path, words: int, noted: bool
) -> None:
    folder = make_writer(tmp_path / "writing", "filter", {"question": "The bridge is long."})
    chosen = TrainedFilter(str(folder))
    state = run("filco", filter=chosen, profile="filco", retriever=lengthened(words))
    cut = [note["node"] for note in state["notes"] if note["event"] == "input_cut"]
    assert cut == (["filter_context"] if noted else [])
