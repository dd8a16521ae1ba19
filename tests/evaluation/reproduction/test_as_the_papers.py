"""Rows of the papers' tables are asked, searched, scored and told of as the papers say."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from tests.evaluation.reproduction.islands import LEXICAL, data_folder, on, request_of
from tests.hash_embeddings import HashEmbeddings
from tests.scripted import ScriptedChat, Seen

from ragweave import KnowledgeBase
from ragweave.evaluation.published import PaperTable, tables_of_paper
from ragweave.evaluation.reproduction import PlannedRun, Request, compare_table, runs_of_table
from ragweave.evaluation.reproduction.outcomes import large_roles, outcomes_of
from ragweave.evaluation.runs import RunDirectory, claim_directory, evaluate
from ragweave.tools.knowledge import Settings


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_folder(tmp_path_factory.mktemp("islands"))


def table_of(paper: str, name: str, dataset: str, *labels: str) -> PaperTable:
    """Return a table on one data set, all rows or those of these names."""
    table = on(tables_of_paper(paper, name)[0], dataset)
    return replace(table, rows=tuple(row for row in table.rows if not labels or row.row in labels))


def done(run: PlannedRun, out: Path, **models: ScriptedChat) -> RunDirectory:
    directory = claim_directory(out / run.folder, run.plan(out))
    asyncio.run(evaluate(directory, models=models))
    return directory


def slim(seen: Seen) -> str | Exception:
    """Speak as SlimPLM's models, and fail on one island."""
    assert seen.task
    if seen.task["task"] == "judge":
        return "<Known(False)>"
    if seen.task["task"] == "answer" and "Harrow" in seen.task["question"]:
        return ValueError("no reply")
    return "It was lit in 1801, say the goats."


def test_asqa_is_asked_for_its_short_answers_and_failures_are_told(
    data: Path, tmp_path: Path
) -> None:
    table = table_of("slimplm", "table2", "asqa", "SlimPLM", "w/o QR")
    (run,) = runs_of_table(table, request_of(data, proxies=(), limit=3))
    chat = ScriptedChat(replies=slim, usage=(10, 2))
    done(run, tmp_path, answer=chat)
    answers = [one for one in chat.seen if one.task and one.task["task"] == "answer"]
    assert answers
    for one in answers:
        assert "You should include as many possible answers as you can." in str(one.messages)
        assert one.settings["max_tokens"] == 512
    row = compare_table(table, [run], tmp_path)[0]
    ours = {cell.metric: cell.ours for cell in row.cells}
    assert (share := ours["answer_share"])
    assert (share.mean, share.n) == (0.75, 2)
    told = "1 of 3 questions failed and count in no score: --retry-failed asks them again"
    assert told in row.differs
    assert not any("failed" in text for text in compare_table(table, [run], None)[0].differs)


@pytest.mark.parametrize("name", ["table1", "table2", "table3", "table4", "figure3"])
def test_of_slimplms_data_sets_asqa_alone_has_a_form_of_its_own(name: str) -> None:
    (table,) = tables_of_paper("slimplm", name)
    for row in table.rows:
        assert table.options_of(row, "asqa")["answer_type"] == "short"
        assert "answer_type" not in table.options_of(row, "eli5")


SEARCHED = [
    ("slimplm", "table2", "nq", True, "bm25"),
    ("filco", "table3", "nq", True, "dense"),
    ("filco", "table3", "nq", False, "bm25"),
    ("post-fusion", "table2", "triviaqa", True, "dense"),
    ("post-fusion", "table2", "squad", True, "bm25"),
    ("blendfilter", "table1", "hotpotqa", True, "dense"),
    ("blendfilter", "table1", "hotpotqa", False, "bm25"),
]


@pytest.mark.parametrize(("paper", "name", "dataset", "embedded", "wanted"), SEARCHED)
def test_a_knowledge_base_is_searched_as_the_paper_searched(
    paper: str, name: str, dataset: str, embedded: bool, wanted: str, data: Path, tmp_path: Path
) -> None:
    kb = tmp_path / "kb"
    if embedded:
        KnowledgeBase.create(kb, embeddings=HashEmbeddings()).close()
    else:
        KnowledgeBase.create(kb, settings=Settings(embedding=None)).close()
    table = table_of(paper, name, dataset)
    runs = [one for one in runs_of_table(table, request_of(data, kb=kb)) if one.rows]
    assert {one.settings["retriever"] for one in runs} == {wanted}
    if not embedded:
        told = [text for one in compare_table(table, runs, None) for text in one.differs]
        assert any(text.endswith("kb, bm25") for text in told if text.startswith("corpus"))


def test_a_users_options_are_named_where_the_row_has_others(data: Path) -> None:
    table = table_of("slimplm", "table2", "nq", "SlimPLM", "w/o QR", "w/o QJ")
    given = ("rewrite=false", "answer_type=long", "ask_again=true", "question_judge=true")

    def told(*options: str) -> dict[str, list[str]]:
        runs = runs_of_table(table, request_of(data, options=options))
        rows = compare_table(table, runs, None)
        return {one.row.row: [t for t in one.differs if t.startswith("options")] for one in rows}

    assert told(*given) == {
        "SlimPLM": ["options rewrite=False, answer_type=long, ask_again=True"],
        "w/o QR": ["options answer_type=long, ask_again=True"],
        "w/o QJ": ["options rewrite=False, answer_type=long, ask_again=True"],
    }
    assert told("profile=ours")["SlimPLM"] == ["options profile=ours"]
    assert told() == {"SlimPLM": [], "w/o QR": [], "w/o QJ": []}


def test_the_proxy_alone_is_varied(data: Path) -> None:
    table = table_of("slimplm", "table3", "nq")
    others = {"proxies": (LEXICAL, "extractive")}
    cases: list[tuple[dict[str, str], str]] = [
        ({}, LEXICAL),
        ({"judge": "extractive"}, "extractive"),
    ]
    for given, judge in cases:
        runs = runs_of_table(table, request_of(data, models=given, **others))
        models = {one.folder.partition("/")[2]: one.models for one in runs if not one.problem}
        parts = {"judge": judge, "rewriter": LEXICAL}
        assert models["nq-proxy-2"] == {"answer": LEXICAL, "proxy": "extractive", **parts}
        assert models["nq"] == {"answer": LEXICAL, "proxy": LEXICAL, **given}


@pytest.mark.parametrize(
    ("models", "large"),
    [
        ({}, {"answer", "proxy", "judge", "rewrite", "filter"}),
        ({"proxy": "small"}, {"answer", "filter"}),
        ({"proxy": "small", "judge": "big"}, {"answer", "filter", "judge"}),
        ({"judge": "small", "rewriter": "small"}, {"answer", "filter", "proxy"}),
        ({"proxy": "small", "filter_model": "small"}, {"answer"}),
    ],
)
def test_who_plays_for_a_missing_model_is_the_large_one(
    models: dict[str, str], large: set[str]
) -> None:
    assert set(large_roles({"answer": "big", **models})) == large


@pytest.mark.parametrize(("proxies", "calls", "drafted"), [((), 4, 2.0), ((LEXICAL,), 1, 0.2)])
def test_a_small_models_tokens_are_a_tenth_and_the_large_ones_whole(
    proxies: tuple[str, ...], calls: int, drafted: float, data: Path, tmp_path: Path
) -> None:
    table = table_of("slimplm", "table4", "asqa")
    request = Request(model="extractive", proxies=proxies, data=data, limit=1)
    (run,) = runs_of_table(table, request)
    roles = ("answer", "proxy") if proxies else ("answer",)
    chats = {role: ScriptedChat(replies=slim, usage=(10, 2)) for role in roles}
    found = outcomes_of(done(run, tmp_path, **chats)).points["SlimPLM"]
    assert found["api_calls"] == {0: calls}
    assert found["tokens_proxy"] == {0: pytest.approx(drafted)}
    assert found["tokens_answer"] == {0: 2}


def test_a_single_sample_is_drawn_as_warm_as_many() -> None:
    (figure,) = tables_of_paper("post-fusion", "figure5")
    for row in figure.rows:
        assert figure.options_of(row, "nq")["sample_temperature"] == 0.7
