"""Every table and figure of the papers, reproduced at five questions."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.evaluation.files import SHARED
from tests.evaluation.reproduction.islands import LEXICAL, data_folder, on, request_of
from tests.scripted import ScriptedChat, Seen, nucleus

from ragweave.cli.screen import show_tables
from ragweave.errors import UsageError
from ragweave.evaluation.metrics import Interval
from ragweave.evaluation.published import PAPERS, paper_tables, tables_of_paper
from ragweave.evaluation.published.tables import read_tables
from ragweave.evaluation.reproduction import (
    ComparedRow,
    PlannedRun,
    compare_table,
    comparison_tables,
    difference_tables,
    runs_of_table,
    write_pages,
)
from ragweave.evaluation.reproduction.outcomes import best_of, column_label, measured
from ragweave.evaluation.runs import RunConfig, claim_directory, evaluate

REPRODUCIBLE = [
    (paper, table.name)
    for paper, tables in paper_tables().items()
    for table in tables
    if not table.listed
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_folder(tmp_path_factory.mktemp("islands"))


@pytest.fixture(scope="module")
def replies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("replies") / "replies.sqlite"


def run_all(runs: Sequence[PlannedRun], out: Path, cache: Path | None = None) -> None:
    for one in runs:
        if one.made is not None:
            directory = claim_directory(out / one.folder, one.plan(out))
            result = asyncio.run(evaluate(directory, RunConfig(cache=cache)))
            assert result.complete
            assert result.progress.failed == 0


ON_ALL = (("slimplm", "table4"), ("filco", "table2"))
"""Tables that are tried on all of their data sets; the others take turns at theirs."""


@pytest.mark.parametrize(("paper", "name"), REPRODUCIBLE)
def test_every_table_stands_beside_the_papers(
    paper: str, name: str, data: Path, replies: Path, tmp_path: Path
) -> None:
    (table,) = tables_of_paper(paper, name)
    turn = [one for one in tables_of_paper(paper) if not one.listed].index(table)
    dataset = table.datasets[turn % len(table.datasets)]
    table = on(table, *(table.datasets if (paper, name) in ON_ALL else (dataset,)))
    runs = runs_of_table(table, request_of(data))
    run_all(runs, tmp_path, replies)
    rows = compare_table(table, runs, tmp_path)
    assert {one.dataset for one in rows} == set(table.datasets)
    shown = {row.row for row in table.rows if any(map(row.measured_on, table.datasets))}
    assert {one.row.row for one in rows} == shown
    for one in rows:
        assert one.why_not or all(cell.ours for cell in one.cells if _applies(one, cell.metric))
        told = " ".join(one.differs)
        assert one.why_not or one.row.method.startswith("best:") or "questions: " in told
    assert not any(text.startswith("options ") for one in rows for text in one.differs)
    left_out = {one.row.row: one.why_not for one in rows if one.why_not}
    reasons = ("name --scorer", "training=FILE", "probability of each token", "no method")
    assert all(any(one in why for one in reasons) for why in left_out.values())
    printed = {cell.metric for one in rows for cell in one.cells if cell.printed}
    assert bool(printed) != table.figure
    files = write_pages(tmp_path / "pages", replace(table, figure=False), rows, {"answer": "m"})
    page, written = (path.read_text("utf-8") for path in files)
    assert all(label in page for label in shown)
    assert len(json.loads(written)["rows"]) == len(rows)


def _applies(one: ComparedRow, metric: str) -> bool:
    """Say whether a value is due: no question's passages may be negative, and no first row gains."""
    return "negative" not in metric and "nm" not in metric


@pytest.mark.parametrize("paper", PAPERS)
def test_declarations_can_be_run_and_read(paper: str) -> None:
    for table in tables_of_paper(paper):
        assert table.listed or table.rows
        for row in table.rows:
            for dataset, metric in row.cells:
                assert column_label(metric)
                if row.ours:
                    table.options_of(row, dataset)


def test_every_number_of_a_paper_is_there() -> None:
    for paper, (tables, figures) in {
        "blendfilter": (6, 6),
        "slimplm": (10, 3),
        "filco": (5, 7),
        "post-fusion": (2, 9),
    }.items():
        found = tables_of_paper(paper)
        assert {one.name for one in found} == {
            *(f"table{number}" for number in range(1, tables + 1)),
            *(f"figure{number}" for number in range(1, figures + 1)),
        }


def test_a_row_of_other_columns_is_refused_with_its_place() -> None:
    text = "@paper P\n@corpus C\n@table 1\n@title T\n@columns nq:em nq:f1\nconcat | C | 1 2 3\n"
    with pytest.raises(UsageError, match=r"filco\.txt:6: is no row"):
        list(read_tables("filco", text))
    with pytest.raises(UsageError, match="did you mean 'filco'"):
        tables_of_paper("filko")
    with pytest.raises(UsageError, match="has no table or figure '9'; choose one of: table1"):
        tables_of_paper("filco", "9")
    assert tables_of_paper("filco", "Fig. 5")[0].name == tables_of_paper("filco", "figure5")[0].name


def test_a_reproduction_goes_on_and_pays_nothing_twice(data: Path, tmp_path: Path) -> None:
    (table,) = tables_of_paper("post-fusion", "figure6")
    runs = runs_of_table(table, request_of(data, proxies=()))

    def year(seen: Seen) -> str:
        years = [
            word.strip(".") for text in seen.passages for word in text.split() if word[:2] == "18"
        ]
        return years[0] if years else "Unknown"

    chat = ScriptedChat(replies=year, usage=(10, 2))
    for calls in (2, 100):
        for one in runs:
            directory = claim_directory(tmp_path / one.folder, one.plan(tmp_path))
            config = RunConfig(concurrency=1, budget_tokens=12 * calls)
            done = asyncio.run(evaluate(directory, config, models={"answer": chat}))
            if not done.complete:
                break
    asked = [str(one.messages) for one in chat.seen]
    assert done.complete
    assert len(asked) == len(set(asked)) + 5  # as retrieved, and first, may be the same prompt
    rows = {one.row.row: one for one in compare_table(table, runs, tmp_path)}
    em = {label: one.cells[0].ours for label, one in rows.items()}
    assert em["gold first"] is not None
    assert em["gold first"].mean == 1.0
    assert em["gold first"].n == 5


def test_what_differs_is_named_row_by_row(data: Path) -> None:
    (table,) = tables_of_paper("filco", "table3")
    runs = runs_of_table(table, request_of(data, limit=3))
    rows = {(one.dataset, one.row.row): one for one in compare_table(table, runs, None)}
    nq = {label: " | ".join(rows["nq", label].differs) for label in ("FULL", "FILCO", "SILVER")}
    assert "generator trained, here untrained" in nq["FULL"]
    assert "filter trained" not in nq["FULL"] + nq["SILVER"]
    assert "filter trained, here untrained" in nq["FILCO"]
    assert "corpus KILT Wikipedia, DPR, here the data set's own passages, BM25" in nq["FILCO"]
    assert (
        "3,610 of test of NQ-open, here first 3 of biencoder-nq-test.json (5 questions)"
        in nq["FILCO"]
    )
    assert "name --scorer" in rows["hotpotqa", "SILVER"].why_not
    told = difference_tables(table, list(rows.values()))[0]
    assert [row[2] for row in told.rows if "generator trained" in row[1]] == ["all"]
    slim = tables_of_paper("slimplm", "table2")[0]
    one = compare_table(slim, runs_of_table(slim, request_of(data, proxies=())), None)[0]
    assert "proxy Llama2-7B-Chat, here the answering model itself" in one.differs
    assert "judge trained, here untrained" in one.differs


def test_a_proxy_that_is_missing_is_asked_for(data: Path) -> None:
    (table,) = tables_of_paper("slimplm", "table3")
    runs = runs_of_table(table, request_of(data, proxies=(LEXICAL, LEXICAL)))
    reasons = {one.folder.partition("/")[2]: one.problem for one in runs}
    assert reasons["nq"] == reasons["nq-proxy-2"] == ""
    assert "give --proxy once for each" in reasons["nq-proxy-3"]
    (figure,) = tables_of_paper("slimplm", "figure3")
    reasons = {
        one.folder: one.problem for one in runs_of_table(figure, request_of(data, proxies=()))
    }
    assert "the proxy answers here" in reasons["figure3/asqa-answer-proxy"]


def test_the_authors_own_questions_are_asked_where_their_ids_are_there(tmp_path: Path) -> None:
    folder = data_folder(tmp_path / "islands")
    (table,) = tables_of_paper("slimplm", "table2")
    request = request_of(folder, limit=None)
    drawn = next(run.made for run in runs_of_table(on(table, "asqa"), request))
    assert drawn is not None
    assert (drawn.sample, drawn.dataset.partition("?")[2]) == (400, "")
    ids = folder / "asqa-test-datasetid.json"
    ids.write_text('["a0", "a1"]', "utf-8")
    listed = next(iter(runs_of_table(on(table, "asqa"), request)))
    assert listed.problem.startswith("the file holds 2 of 400 questions: slimplm asks a listed 400")


def test_missing_data_says_where_to_get_it(tmp_path: Path) -> None:
    (table,) = tables_of_paper("post-fusion", "table1")
    runs = runs_of_table(table, request_of(tmp_path))
    assert all(one.made is None for one in runs)
    assert re.search("no file of nq: get biencoder-nq-dev.json.gz from github.com", runs[0].problem)


def test_gold_must_be_known_where_it_is_put_in(data: Path, tmp_path: Path) -> None:
    plain = tmp_path / "NQ-open.dev.jsonl"
    plain.write_text('{"question": "When?", "answer": ["1801"]}\n', "utf-8")
    (table,) = tables_of_paper("post-fusion", "figure6")
    runs = runs_of_table(table, request_of(data, files={"nq": plain}))
    assert runs[-1].problem == "puts in gold passages, and NQ-open.dev.jsonl names none"


def test_derived_columns() -> None:
    first = {"em": {0: 1.0, 1: 0.0, 2: 0.5}, "answer_recall": {0: 1.0, 1: 0.0, 2: 1.0}}
    mine = {"em": {0: 1.0, 1: 1.0, 2: 0.0}}
    assert measured("em", mine, first) == mine["em"]
    assert measured("em>0.5", first, first) == {0: 1.0, 1: 0.0, 2: 0.0}
    assert measured("gain(em)/positive", mine, first, "answer_recall") == {0: 0.0, 2: -0.5}
    assert measured("gain(em)/negative", mine, first, "answer_recall") == {1: 1.0}
    assert measured("better(em)", mine, first) == {0: 0.0, 1: 1.0, 2: 0.0}
    assert measured("f1", mine, first) is None
    assert best_of([first, {"em": {0: 0.0, 1: 1.0}}]) == {"em": {0: 1.0, 1: 1.0}}
    assert column_label("gain(f1)/positive") == "gain in F1, positive"


def test_positive_is_what_the_paper_says_of_the_data_set() -> None:
    first = {
        "output_precision": {0: 0.1, 1: 0.2},
        "f1": {0: 0.0, 1: 0.0},
        "answer_recall": {0: 1.0, 1: 1.0},
        "recall": {0: 0.5, 1: 0.0},
    }
    mine = {**first, "recall": {0: 0.0, 1: 1.0}}
    (table,) = tables_of_paper("filco", "table2")
    by = {dataset: table.rows[0].positive(dataset) for dataset in table.datasets}
    assert by == {
        **dict.fromkeys(("nq", "triviaqa"), "answer_recall"),
        **dict.fromkeys(("hotpotqa", "eli5", "fever", "wow"), "recall"),
    }
    for dataset, own in (("nq", {0: 0.1, 1: 0.2}), ("hotpotqa", {1: 0.2})):
        assert measured("output_precision/positive", mine, first, by[dataset]) == own
    assert (
        measured("output_precision/positive", {"output_precision": {0: 1.0}}, first, "recall") == {}
    )
    assert measured("gain(f1)/positive", mine, first, "recall") == {0: 0.0}
    assert measured("gain(f1)/negative", mine, first, "recall") == {1: 0.0}


def test_printed_values_stand_under_the_model_that_the_paper_names(data: Path) -> None:
    """Each table names its models; one before it, or a later row's, are none of its own."""
    others = {
        ("post-fusion", "table2"): {"Supervised": ""},
        ("filco", "table4"): {"RAG, top 5": "", "FID, top 5": "", "FULL, top 5": "FLAN-T5-XL"},
    }
    for (paper, name), models in others.items():
        (table,) = tables_of_paper(paper, name)
        assert {row.row: row.model for row in table.rows if row.row in models} == models
    assert tables_of_paper("filco", "figure4")[0].models == ("FLAN-T5-XL", "Llama-2-7b")
    assert tables_of_paper("filco", "figure5")[0].models == ()
    heads = {}
    for paper, name in (*others, ("filco", "table3")):
        (table,) = tables_of_paper(paper, name)
        table = on(table, table.datasets[0])
        rows = compare_table(table, runs_of_table(table, request_of(data)), None)
        shown = comparison_tables(table, rows, {"answer": "m"})[0]
        heads[paper, name] = shown.head[3:]
        for row in (one for one in shown.rows if one[0] in ("Supervised", "RAG, top 5")):
            assert set(row[3 : shown.head.index("other")]) == {"–"}
            assert row[shown.head.index("other")] in ("40.9", "44.5")
            assert "other: systems with models of their own" in " ".join(shown.remarks)
    assert heads["post-fusion", "table2"][:4] == ["paper 1", "paper 2", "paper 3", "other"]
    assert heads["filco", "table4"][:2] == ["paper", "other"]
    assert heads["filco", "table3"][:2] == ["paper", "differs"]


def test_any_of_three_is_the_best_answer_of_each_question(data: Path, tmp_path: Path) -> None:
    (table,) = tables_of_paper("blendfilter", "figure4")
    table = replace(table, rows=tuple(row for row in table.rows if "cot" in row.method))
    runs = runs_of_table(table, request_of(data))
    tried = {0: "1801", 0.5: "1802", 1: "Unknown"}
    said = "So the answer is {}."
    chat = ScriptedChat(replies=lambda seen: said.format(tried[nucleus(seen)]), temperature=0.0)
    for one in runs:
        directory = claim_directory(tmp_path / one.folder, one.plan(tmp_path))
        asyncio.run(evaluate(directory, models={"answer": chat}))
    rows = {one.row.row: one.cells[0].ours for one in compare_table(table, runs, tmp_path)}
    means = {label: ours.mean for label, ours in rows.items() if ours}
    assert means == {
        "CoT, top_p 0": 0.2,
        "CoT, top_p 0.5": 0.2,
        "CoT, top_p 1": 0.0,
        "CoT, any of three": 0.4,
    }


def test_figures_are_drawn(data: Path, replies: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need the eval extra")
    for paper, name, plot in (
        ("post-fusion", "figure4", "figure4-nq-em.png"),
        ("slimplm", "figure3", "figure3-asqa.svg"),
        ("filco", "figure5", "figure5-nq-tokens.svg"),
    ):
        table = on(tables_of_paper(paper, name)[0], "nq", "asqa")
        runs = runs_of_table(table, request_of(data, limit=1))
        run_all(runs, tmp_path / paper, replies)
        rows = compare_table(table, runs, tmp_path / paper)
        drawn = {path.name for path in write_pages(tmp_path / paper, table, rows, {})}
        assert plot in drawn


def test_tables_fit_a_terminal_of_eighty_columns(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (table,) = tables_of_paper("post-fusion", "table1")
    rows = compare_table(table, runs_of_table(table, request_of(data)), None)
    full = Interval(1.0, 1.0, 1.0, 5)
    rows = [replace(one, cells=tuple(replace(c, ours=full) for c in one.cells)) for one in rows]
    shown = comparison_tables(table, rows, {"answer": "m"})[0]
    assert shown.rows[0] == ["Concatenation", "EM", "100.0 [100.0, 100.0]", "26.9", "38.1", "41.9"]
    monkeypatch.setenv("COLUMNS", "80")
    show_tables([shown])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("100.0 [100.0, 100.0]" in line for line in lines) == len(shown.rows)
    models = "paper 1: Llama-2-7b-chat, paper 2: gpt-3.5-turbo-16k, paper 3: gpt-4-0613"
    assert f"Models: {models}; ours: answer m." in shown.remarks


def test_a_table_from_real_data(tmp_path: Path) -> None:
    if not (SHARED / "hotpotqa").exists():
        pytest.skip("the shared data sets are not here")
    (table,) = tables_of_paper("blendfilter", "table5")
    runs = runs_of_table(table, request_of(SHARED, proxies=(), limit=2))
    run_all(runs, tmp_path)
    rows = compare_table(table, runs, tmp_path)
    assert len(rows) == 8
    assert all(cell.ours and cell.printed for one in rows for cell in one.cells)
