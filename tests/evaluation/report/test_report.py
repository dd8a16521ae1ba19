"""Reports: what stands in them is what the runs say."""

from __future__ import annotations

import asyncio
import csv
import itertools
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluation.files import write_lines
from tests.evaluation.towns import planned, reader, records, run, towns
from tests.scripted import ScriptedChat, Seen

from ragweave.cli.eval import conclude, status_line
from ragweave.errors import UsageError
from ragweave.evaluation.metrics import Interval, Metric
from ragweave.evaluation.published import all_published
from ragweave.evaluation.report import (
    Point,
    plot_points,
    read_runs,
    tables_of,
    write_report,
)
from ragweave.evaluation.report.pairs import pairs_table
from ragweave.evaluation.report.plots import LABEL, beside
from ragweave.evaluation.report.published import differences, published_for, published_table
from ragweave.evaluation.report.summary import Experiment
from ragweave.evaluation.runs import (
    RunDirectory,
    RunSettings,
    claim_directory,
    evaluate,
    parse_systems,
    plan,
    system,
)
from ragweave.evaluation.runs.directory import SETTINGS
from ragweave.graphs import METHODS

SYSTEMS = "direct,concat[k=1],concat_pf[k=2]"


@pytest.fixture
def done(tmp_path: Path) -> RunDirectory:
    directory = planned(tmp_path, SYSTEMS)
    run(directory, reader())
    return directory


def test_runs_whose_directories_share_a_name_share_no_file(tmp_path: Path) -> None:
    for place, method in (("a", "direct"), ("b", "concat"), ("b/c/b", "post_fusion")):
        run(planned(tmp_path / place, method, count=1), reader())
    paths = [tmp_path / place / "run" for place in ("a", "b", "b/c/b")]
    found = read_runs(paths)
    assert [one.name for one in found] == ["run", "b-run", "run-3"]
    write_report(tmp_path / "report", found, plots=False)
    pages = {one.name: one.read_text("utf-8") for one in (tmp_path / "report").rglob("*-0.html")}
    assert len(pages) == 3
    assert "concat" in pages["b-run-0.html"]


def test_tables_say_what_the_records_say(done: RunDirectory) -> None:
    (experiment,) = read_runs([done.path])
    tables = {table.title.partition(":")[0]: table for table in tables_of(experiment)}
    answers = {
        row[0]: dict(zip(tables["run"].head, row, strict=True)) for row in tables["run"].rows
    }
    assert answers["concat[k=1]"]["EM"] == "100.0 [100.0, 100.0]"
    assert answers["direct"]["%Unk"] == "100.0 [100.0, 100.0]"
    cost = {row[0]: dict(zip(tables["Cost"].head, row, strict=True)) for row in tables["Cost"].rows}
    assert (cost["direct"]["Calls"], cost["direct"]["Tokens in"]) == ("1.00", "10.00")
    pairs = {row[0]: row for row in tables["Differences"].rows}
    assert pairs["direct − concat[k=1]"][1] == "-100.0"
    assert float(pairs["direct − concat[k=1]"][3]) < 0.05


def test_shards_are_one_experiment_again(tmp_path: Path) -> None:
    merged = [shard(tmp_path, part, 2) for part in (1, 2)]
    (experiment,) = read_runs(merged)
    assert experiment.columns["direct"].answered == 7
    assert experiment.planned == 7
    assert not any("shard" in one for one in tables_of(experiment)[0].remarks)
    with pytest.raises(UsageError, match="named twice"):
        read_runs([merged[0], merged[0]])


def test_shards_that_may_share_questions_are_not_merged(tmp_path: Path) -> None:
    whole, half, third = (shard(tmp_path, 1, parts) for parts in (1, 2, 3))
    for one, other in ((whole, half), (half, whole), (half, third)):
        with pytest.raises(UsageError, match="they may share questions"):
            read_runs([one, other])


def test_a_run_with_a_part_trained_anew_is_another_and_one_without_digests_is_not(
    tmp_path: Path,
) -> None:
    def digest(path: Path, parts: dict[str, str]) -> Path:
        file = path / SETTINGS
        file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), "parts": parts}))
        return path

    first, second = (shard(tmp_path, part, 2) for part in (1, 2))
    digest(first, {"skr.jsonl": "a"})
    assert len(read_runs([first, digest(second, {})])) == 1
    assert len(read_runs([first, digest(second, {"skr.jsonl": "a"})])) == 1
    assert len(read_runs([first, digest(second, {"skr.jsonl": "b"})])) == 2


def test_a_report_of_some_shards_says_which_are_missing(tmp_path: Path) -> None:
    (half,) = read_runs([shard(tmp_path, 1, 2)])
    remarks = tables_of(half)[0].remarks
    assert "4 of the run's 7 questions: without shard 2 of 2." in remarks
    (some,) = read_runs([shard(tmp_path, part, 4) for part in (1, 3)])
    remarks = tables_of(some)[0].remarks
    assert "4 of the run's 7 questions: without shards 2, 4 of 4." in remarks


def shard(folder: Path, part: int, parts: int) -> Path:
    """Run a shard of seven towns; return its directory."""
    data = f"jsonl:{towns(folder, 7)}"
    made = plan(data, [system("direct")], {"answer": "scripted"}, shard=(part, parts))
    directory = claim_directory(folder / f"part{part}of{parts}", made)
    run(directory, reader())
    return directory.path


def test_failures_and_unfinished_questions_are_told(tmp_path: Path) -> None:
    directory = planned(tmp_path, "direct")

    def breaks(seen: Seen) -> str | Exception:
        return ValueError("no") if "Lom" in seen.text else "1900"

    run(directory, ScriptedChat(replies=breaks, usage=(10, 2)), concurrency=1, budget_tokens=24)
    (experiment,) = read_runs([directory.path])
    remarks = " ".join(tables_of(experiment)[0].remarks)
    assert "ValueError 1" in remarks
    assert "3 of 6 questions are not done yet" in remarks


def test_questions_that_went_on_without_their_proxy_are_told(tmp_path: Path) -> None:
    """Else what stands under the method's name is plain retrieval."""
    directory = planned(tmp_path, "slimplm")

    def breaks(seen: Seen) -> str | Exception:
        asked = seen.task["task"] if seen.task else ""
        return ValueError("no key") if asked in ("recall", "judge", "rewrite") else "1900"

    run(directory, ScriptedChat(replies=breaks, usage=(10, 2)), concurrency=1)
    (experiment,) = read_runs([directory.path])
    remarks = " ".join(tables_of(experiment)[0].remarks)
    assert "slimplm: the proxy failed for 6 of 6 questions, which were searched for" in remarks


def test_nothing_finished_is_no_report(tmp_path: Path) -> None:
    directory = planned(tmp_path, "direct")
    with pytest.raises(UsageError, match="no question is finished yet"):
        read_runs([directory.path])
    with pytest.raises(UsageError, match="is not a run"):
        read_runs([tmp_path])


def test_files_stand_alone_and_every_question_has_its_page(
    done: RunDirectory, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    files = write_report(out, read_runs([done.path]), pages=4)
    assert {path.suffix for path in files} >= {".md", ".html", ".csv"}
    page = (out / "report.html").read_text("utf-8")
    assert not re.search(r'(?:src|href)="(?:https?:|/)', page)
    links = re.findall(r'href="(questions/[^"]+)"', page)
    assert len(links) == 4
    question = (out / links[0]).read_text("utf-8")
    (first, *_) = records(done)
    assert "When did the bridge of Varn open?" in question
    assert first["passages"][0]["text"] in question
    assert "What each node did" in question
    assert "<th>executions<th>s elapsed<th>s in total" in question
    assert re.search(r"<tr><td>retrieve<td><td><td>1<td>\d+\.\d{3}<td>\d+\.\d{3}</tr>", question)
    with (out / "results.csv").open(encoding="utf-8") as stream:
        rows = {(row["system"], row["metric"]): row for row in csv.DictReader(stream)}
    assert float(rows["concat[k=1]", "em"]["mean"]) == 1.0
    assert rows["concat[k=1]", "em"]["n"] == "6"
    elapsed, total = (rows["concat[k=1]", f"node_{one}[concat]"] for one in ("elapsed", "total"))
    assert 0 < float(elapsed["mean"]) <= float(total["mean"])
    told = (out / "report.md").read_text("utf-8")
    assert "| method |" in told
    assert "### Seconds by node" in told


def test_passages_cannot_forge_the_page(tmp_path: Path) -> None:
    directory = planned(tmp_path, "direct", count=1)
    run(directory, ScriptedChat(replies=["<script>alert(1)</script>"]))
    write_report(tmp_path / "out", read_runs([directory.path]), plots=False)
    for path in (tmp_path / "out").rglob("*.html"):
        assert "<script>" not in path.read_text("utf-8")


def test_the_page_begins_with_scores_and_plots_and_folds_the_nodes(
    done: RunDirectory, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib", reason="plots need the eval extra")
    write_report(tmp_path / "out", read_runs([done.path]))
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    order = [page.index(one) for one in ("<th>EM", "data:image/png", "<h3>Cost", "<h2>Questions")]
    assert order == sorted(order)
    assert "<details><summary><h3>Seconds by node</h3>" in page
    assert '<meta name="viewport"' in page
    told = (tmp_path / "out" / "report.md").read_text("utf-8")
    assert told.index("![run-em]") < told.index("### Cost")
    (experiment,) = read_runs([done.path])
    nodes = next(one for one in tables_of(experiment) if one.title == "Seconds by node")
    assert all(
        re.fullmatch(r"<0\.001|0|\d+\.\d{1,3}", cell) for row in nodes.rows for cell in row[4:]
    )


def test_names_in_a_plot_do_not_meet(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need the eval extra")
    from matplotlib.text import Text

    from ragweave.evaluation.report import plots

    figure, axes = plots._figure(height=0.8 + 12 * plots._LINE)
    axes.plot([0, 10], [0, 100])
    points = [plots._Named(5.0 + at / 100, 50.0 + at % 2, f"method_{at}", "k") for at in range(12)]
    plots._name_points(axes, points)
    figure.canvas.draw()
    boxes = sorted((Text.get_window_extent(one) for one in axes.texts), key=lambda box: box.y0)
    assert len(boxes) == 12
    assert all(low.y1 <= high.y0 + 1 for low, high in itertools.pairwise(boxes))
    assert all(box.x1 <= figure.bbox.x1 for box in boxes)


CLOUD = st.lists(st.tuples(st.floats(0, 300), st.floats(0, 300)), max_size=26)


@given(CLOUD)
def test_numbers_beside_points_do_not_meet(cloud: list[tuple[float, float]]) -> None:
    offsets = beside(cloud)
    assert len(offsets) == len(cloud)
    labels = [(x + dx, y + dy) for (x, y), (dx, dy) in zip(cloud, offsets, strict=True)]
    alone = [one for one in labels if all(_apart(one, point) for point in cloud)]
    assert all(_apart(one, other) for one, other in itertools.combinations(alone, 2))
    assert all(abs(dx) + abs(dy) >= 8 for dx, dy in offsets)


def _apart(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return abs(one[0] - other[0]) >= LABEL[0] * 0.7 or abs(one[1] - other[1]) >= LABEL[1] * 0.8


def test_many_points_are_numbered_by_score(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need the eval extra")
    points = [
        Point(f"method_{at}", 100.0 * (at + 1), Interval(at / 30, 0, 1, 9)) for at in range(26)
    ]
    _, svg = plot_points(tmp_path, "all", points, "tokens", "F1")
    drawn = re.findall(r"<!-- (\d+(?:  method_\d+)?) -->", svg.read_text("utf-8"))
    assert [one for one in drawn if "method" in one] == [
        f"{number}  method_{26 - number}" for number in range(1, 27)
    ]
    assert set(map(str, range(1, 27))) <= set(drawn)


def test_plots_are_drawn_as_png_and_svg(done: RunDirectory, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need the eval extra")
    files = write_report(tmp_path / "out", read_runs([done.path]))
    plots = [path for path in files if path.parent.name == "plots"]
    assert {path.suffix for path in plots} == {".png", ".svg"}
    svg = next(path for path in plots if path.name == "run-tokens.svg").read_text("utf-8")
    assert "tokens a question" in svg
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in plots if path.suffix == ".png")


def test_printed_values_are_of_methods_and_scores_that_we_have() -> None:
    assert len(all_published()) > 500
    for one in all_published():
        made = system(one.method, **one.options)
        assert made.method in METHODS
        assert 0 <= one.value <= 100 or one.metric.startswith("tokens_")


def test_printed_values_stand_beside_what_matches_in_name(tmp_path: Path) -> None:
    directory = planned(tmp_path, "concat", gold="with")
    settings = directory.settings
    named = type(settings)(**{**vars(settings), "dataset_name": "nq"})
    found = published_for(named, system("concat"))
    assert {(one.metric, one.value) for one in found if one.model == "gpt-3.5-turbo-16k"} == {
        ("em", 38.1),
        ("f1", 45.4),
        ("unknown", 19.9),
    }
    told = differences(found[0], named, system("concat", k=10), n=200)
    assert [text.split()[0].rstrip(":") for text in told] == [
        "model",
        "corpus",
        "sample",
        "questions",
        "k",
        "prompts",
    ]
    without = type(settings)(**{**vars(named), "gold": "as_found"})
    chatgpt = [
        one for one in published_for(without, system("concat")) if one.model.startswith("gpt-3")
    ]
    assert ("em", 34.5) in {(one.metric, one.value) for one in chatgpt}
    assert published_for(named, system("concat_pf"))[0].row == "Concat + PF"
    unstated = differences(replace(found[0], model=""), named, system("concat"), n=200)
    assert unstated[0] == "model not stated, here scripted"


def test_an_ablation_meets_its_own_row() -> None:
    rows = {
        one.row for one in all_published() if one.options.get("queries") == ("question", "internal")
    }
    assert rows == {"w/o q_ex"}


def _named(tmp_path: Path, name: str, **more: Any) -> RunSettings:
    directory = planned(tmp_path, "direct")
    return RunSettings(**{**vars(directory.settings), "dataset_name": name, **more})


def test_what_differs_is_named_trained_or_not_and_oracle_or_not(tmp_path: Path) -> None:
    nq = _named(tmp_path, "nq")
    filco = system("filco", filter="strinc")
    row = next(one for one in published_for(nq, filco) if one.table == "5")
    assert "filter trained, here untrained" in differences(row, nq, filco, 6)
    oracle = RunSettings(**{**vars(nq), "oracle": True})
    told = differences(row, oracle, filco, 6)
    assert {"filter trained, here an oracle", "generator trained, here untrained"} <= set(told)
    slim = system("slimplm")
    assert "judge trained, here untrained" in differences(published_for(nq, slim)[0], nq, slim, 400)
    released = system("slimplm", proxy_profile="released")
    told = differences(published_for(nq, released)[0], nq, released, 400)
    assert not any("trained" in one for one in told)
    assert "options proxy_profile=released" in told


def test_whose_words_the_prompts_are_in_is_named(tmp_path: Path) -> None:
    nq = _named(tmp_path, "nq")
    for name, options, said in (
        ("concat", {}, "prompts: wording ours"),
        ("concat", {"profile": "paper"}, "wording ours, the clause on Unknown as printed"),
        ("slimplm", {"profile": "paper"}, "prompts: printed ones where the paper has them"),
    ):
        one = system(name, **options)
        (told,) = (
            text for text in differences(published_for(nq, one)[0], nq, one, 6) if "prompts" in text
        )
        assert told.endswith(said)
    hotpot = _named(tmp_path / "h", "hotpotqa")
    cot = system("cot", profile="blendfilter")
    told = differences(published_for(hotpot, cot)[0], hotpot, cot, 6)
    assert "prompts: printed ones where the paper has them, examples ours" in told
    react = system("react", profile="blendfilter")
    assert "prompts: wording ours" in differences(published_for(hotpot, react)[0], hotpot, react, 6)


def test_correct_set_ups_meet_their_printed_rows(tmp_path: Path) -> None:
    strategy = _named(tmp_path, "strategyqa")
    blend = system("blendfilter", profile="strategyqa")
    assert ("accuracy", 74.4) in {(one.metric, one.value) for one in published_for(strategy, blend)}
    printed = system("blendfilter", profile="paper")
    told = differences(published_for(strategy, printed)[0], strategy, printed, 500)
    assert "prompts: printed ones where the paper has them, examples ours" in told
    assert not any(one.startswith(("k ", "shots ", "options ")) for one in told)
    nq = RunSettings(**{**vars(strategy), "dataset_name": "nq"})
    own = system("filco", filter="own")
    rows = published_for(nq, own)
    assert "FilCo, top 5" in {one.row for one in rows}
    told = differences(next(one for one in rows if one.table == "4"), nq, own, 10)
    assert "filter trained, here untrained" not in told


def test_slimplm_counts_the_calls_of_the_large_model_and_the_share_of_answers(
    tmp_path: Path,
) -> None:
    rows = [
        {
            "id": str(index),
            "question": f"Who built bridge {index}?",
            "answers": ["Ada", "Ada Brenner", "Miss Lovelace"],
            "passages": [{"title": "B", "text": "Ada Brenner built it.", "gold": True}],
        }
        for index in range(2)
    ]
    data = write_lines(tmp_path / "nq.jsonl", *rows)
    models = {"answer": "scripted", "proxy": "small"}
    made = plan(f"jsonl:{data}", parse_systems("slimplm"), models)
    directory = claim_directory(tmp_path / "run", made)

    def said(seen: Seen) -> str:
        return "<Known(True)>" if seen.task and seen.task["task"] == "judge" else "Ada Brenner."

    chat = {role: ScriptedChat(replies=said) for role in models}
    asyncio.run(evaluate(directory, models=chat))
    (experiment,) = read_runs([directory.path])
    column = experiment.columns["slimplm"]
    assert column.scores["answer_share"].mean == pytest.approx(2 / 3)
    assert (column.costs["api_calls"].mean, column.costs["calls"].mean) == (1.0, 3.0)
    tables = {table.title: table for table in tables_of(experiment)}
    assert "#API" in tables["Cost"].head
    assert "EM (share)" in tables["run: jsonl, scripted"].head
    named = Experiment(
        RunSettings(**{**vars(experiment.settings), "dataset_name": "nq"}),
        experiment.directories,
        experiment.columns,
    )
    beside = published_table(named)
    assert beside is not None
    assert "#API 1.0 · EM (share) 66.7" in beside.rows[0][1]
    assert "#API 1.0 · EM (share) 47.4" in beside.rows[0][2]


def test_a_metric_as_an_object_is_aggregated_in_its_own_way(tmp_path: Path) -> None:
    worst = Metric(
        name="worst",
        label="Worst",
        summary="The worst answer.",
        compute=lambda question, _state: float(question.id != "t0"),
        aggregate=min,
    )
    directory = planned(tmp_path, "direct", metrics=["em", worst])
    asyncio.run(evaluate(directory, models={"answer": reader()}, metrics=[worst]))
    (whole,) = read_runs([directory.path], metrics=[worst])
    table = tables_of(whole)[0]
    shown = dict(zip(table.head, table.rows[0], strict=True))
    assert shown["Worst"].startswith("0.0 ")
    (without,) = read_runs([directory.path])
    table = tables_of(without)[0]
    shown = dict(zip(table.head, table.rows[0], strict=True))
    assert not shown["Worst"].startswith("0.0 "), "the mean, where the metric is not at hand"


def _dollars(directory: RunDirectory) -> tuple[dict[str, str], str]:
    """Return the column US$ of the table of costs, by system, and the table's remarks."""
    (experiment,) = read_runs([directory.path])
    (table,) = [one for one in tables_of(experiment) if one.title == "Cost"]
    at = table.head.index("US$") if "US$" in table.head else None
    return {row[0]: "" if at is None else row[at] for row in table.rows}, " ".join(table.remarks)


def test_dollars_count_replies_from_the_cache_for_each_method_alike(tmp_path: Path) -> None:
    prices = {"*": (1e6, 1e6)}
    directory = planned(tmp_path, "concat[k=1],concat_pf[k=1]", prices=prices)
    run(directory, reader(), concurrency=1, cache=tmp_path / "replies.sqlite")
    (experiment,) = read_runs([directory.path])
    assert sum(one.spent.cached_calls for one in experiment.columns.values()) > 0
    for column in experiment.columns.values():
        calls = column.costs["calls"].mean
        assert column.costs["cost"].mean == pytest.approx(12 * calls)
    assert "cache answered included" in _dollars(directory)[1]


def test_a_method_with_a_role_without_a_price_has_no_dollars(tmp_path: Path) -> None:
    def said(seen: Seen) -> str:
        easy = "Varn" in seen.text
        judges = seen.task is not None and seen.task["task"] == "judge"
        return f"<Known({easy})>" if judges else "1900"

    prices = {"answer": (1e6, 1e6), "proxy": (1e6, 1e6), "judge": (1e6, 1e6)}
    directory = planned(tmp_path, "direct,slimplm", prices=prices)
    run(directory, ScriptedChat(replies=said, usage=(10, 2)))
    found, remarks = _dollars(directory)
    assert found == {"direct": "12.00", "slimplm": "–"}
    assert "slimplm: no US$, for the run has no price for rewrite." in remarks


def test_where_a_role_has_no_price_no_sum_is_told_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    priced = {"answer": (1e6, 1e6), "proxy": (1e6, 1e6), "judge": (1e6, 1e6)}
    ends = {"some": priced, "all": {"*": (1e6, 1e6)}, "none": {}}
    for name, prices in ends.items():
        directory = planned(tmp_path / name, "direct,slimplm", count=1, prices=prices)
        for _ in range(2):  # as it ends, and read back later
            result = run(directory, ScriptedChat(replies=["<Known(False)>"], usage=(10, 2)))
            conclude(directory, result)
            told = capsys.readouterr().err, status_line(result.progress)
            assert all(("no price for rewrite" in one) is (name == "some") for one in told)
            assert all(("$" in one) is (name == "all") for one in told)


def test_a_score_of_an_earlier_version_that_is_no_number_is_left_out(done: RunDirectory) -> None:
    lines = done.results.read_text("utf-8").splitlines()
    first = json.loads(lines[0])
    first["scores"]["em"] = math.nan
    done.results.write_text("\n".join([json.dumps(first), *lines[1:], ""]), "utf-8")
    (experiment,) = read_runs([done.path])
    column = experiment.columns[first["system"]]
    assert (len(column.scores["em"].values), column.answered) == (5, 6)
    assert pairs_table(experiment) is not None


def test_nothing_is_beside_a_table_with_gold_where_no_gold_was_put_in(tmp_path: Path) -> None:
    some = _named(tmp_path, "nq", gold="with", gold_questions=2)
    concat = system("concat")
    told = differences(published_for(some, concat)[0], some, concat, 6)
    assert "gold passage known for 2 of 6 questions" in told
