"""A run as a table on screen, as Markdown, CSV and one HTML page."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.evaluation.conftest import Questions

from ragweave.datasets import Question
from ragweave.errors import UsageError
from ragweave.evaluation import EvalSettings, Metric, Report, evaluate, read_report, write
from ragweave.evaluation.layout import comma_separated, html, markdown, show, verdict


class Scripted:
    """Answers with scores, without a model."""

    def __init__(self, name: str, right: int, tokens: int = 100) -> None:
        self.name, self.right, self.tokens = name, right, tokens

    async def __call__(self, question: Question) -> dict[str, Any]:
        usage = {"calls": 1, "input_tokens": self.tokens, "output_tokens": 0, "usd": 0.002, "priced_calls": 1}
        em = float(question.at < self.right)
        return {"answer": "x", "usage": usage, "scores": {"em": em, "f1": em, "contains": em, "unknown": 0.0}}


@pytest.fixture
def scripted(questions: Questions, tmp_path: Path) -> Callable[..., Path]:
    def make(*systems: Scripted, name: str = "run") -> Path:
        evaluate(EvalSettings(data=questions(40), systems=()), tmp_path / name, own=systems, quiet=True)
        return tmp_path / name

    return make


@pytest.fixture
def run(scripted: Callable[..., Path]) -> Path:
    return scripted(Scripted("concat", 10), Scripted("crag", 30, 250), Scripted("cot", 12))


def shown(report: Report, width: int = 200) -> str:
    console = Console(file=io.StringIO(), width=width)
    show(report, console)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_a_report_in_three_files(run: Path) -> None:
    report = read_report(run)
    assert (report.main, [line.system for line in report.lines]) == ("em", ["concat", "crag", "cot"])
    assert [path.name for path in write(report, run)] == ["report.md", "report.csv", "report.html"]
    assert "| crag |" in markdown(report)
    assert "crag,em,0.75," in comma_separated(report)
    assert report.lines[0].dollars == 0.002


class Unread(Scripted):
    """Gets replies that its steps can't read."""

    async def __call__(self, question: Question) -> dict[str, Any]:
        fields = await super().__call__(question)
        return {**fields, "notes": [{"event": "reply_unreadable"}] if question.at < 3 else []}


def test_unreadable_replies_are_counted_without_being_asked_for(scripted: Callable[..., Path]) -> None:
    report = read_report(scripted(Scripted("concat", 10), Unread("crag", 30)))
    [line] = [note for note in report.notes if "could not be read" in note]
    assert line.endswith(": crag 3.")
    assert line in markdown(report)


def test_each_run_has_its_own_prices(questions: Questions, tmp_path: Path) -> None:
    for name, price in (("cheap", 1.0), ("dear", 10.0)):
        settings = EvalSettings(data=questions(2), systems=("direct",), prices={"*": (price, price)})
        evaluate(settings, tmp_path / name, quiet=True)
    cheap, dear = read_report([tmp_path / "cheap", tmp_path / "dear"]).lines
    assert cheap.dollars is not None
    assert dear.dollars == pytest.approx(10 * cheap.dollars)


def test_what_the_generator_plays_has_its_price(questions: Questions, tmp_path: Path) -> None:
    prices = {"generator": (1.0, 1.0), "judge": (9.0, 9.0)}
    settings = EvalSettings(data=questions(2), systems=("concat", "crag"), prices=prices)
    evaluate(settings, tmp_path / "run", quiet=True)
    for line in read_report(tmp_path / "run").lines:
        assert line.dollars == pytest.approx(line.tokens / 1_000_000)


def test_the_page_needs_nothing_else(run: Path) -> None:
    page = html(read_report(run))
    assert page.count("<circle") == 3
    assert "://" not in page
    for word in ("light-dark(", "width=device-width", "crag leads"):
        assert word in page


def test_the_verdict_is_one_sentence(run: Path, scripted: Callable[..., Path]) -> None:
    assert verdict(read_report(run)) == (
        "crag leads with EM 75.0 [62.5, 87.5], at 2.5 times the tokens of cot, which has 30.0; the difference is "
        "significant (p < .001)."
    )
    level = scripted(Scripted("a", 10), Scripted("b", 10), name="level")
    assert verdict(read_report(level)).startswith("a and b are tied at EM 25.0")
    assert "not significant" in verdict(read_report(scripted(Scripted("a", 10), Scripted("b", 11), name="near")))


def test_all_pairs_are_compared(run: Path) -> None:
    report = read_report(run)
    assert [(pair.first, pair.second) for pair in report.pairs] == [
        ("concat", "crag"),
        ("concat", "cot"),
        ("crag", "cot"),
    ]
    text = markdown(report)
    assert "| crag | concat | +50.0 [" in text
    assert "| cot | crag | -45.0 [" in text


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_the_table_fits_the_terminal(scripted: Callable[..., Path], width: int) -> None:
    long = "blendfilter[k=5,queries=question+external+internal,shots=3]"
    report = read_report(scripted(Scripted(long, 10), Scripted("concat", 12345)))
    lines = shown(report, width).splitlines()
    assert max(map(len, lines)) <= min(width, 100)
    assert "Δ EM" in "".join(lines)


def test_a_paper_stands_beside(run: Path) -> None:
    paper = {"title": "Table 1", "values": [["concat", "em", 41.5]], "columns": ["em"], "notes": ["k is 5"]}
    (run / "paper.json").write_text(json.dumps({**paper, "empty": {"FID": "it is not a method of ours"}}))
    text = markdown(read_report(run))
    assert "| EM | paper |" in text
    assert "| 41.5 |" in text
    assert "> FID was not run: it is not a method of ours" in text
    assert "| FID |" in text


def test_several_runs_are_compared(scripted: Callable[..., Path]) -> None:
    small, large = scripted(Scripted("concat", 10), name="small"), scripted(Scripted("concat", 30), name="large")
    report = read_report([small, large])
    assert [line.system for line in report.lines] == ["small: concat", "large: concat"]
    assert report.pairs[0].comparison.p < 0.001
    assert {"small: version", "large: version"} <= report.about.keys()


def test_runs_of_one_name_are_told_apart_and_only_the_same_questions_are_compared(
    scripted: Callable[..., Path], tmp_path: Path
) -> None:
    first = scripted(Scripted("concat", 10), name="mon/run")
    second = scripted(Scripted("concat", 30), name="tue/run")
    report = read_report([first, second, first])
    assert [(line.system, line.answered) for line in report.lines] == [
        (f"{first}: concat", 40),
        (f"{second}: concat", 40),
    ]
    assert (report.pairs[0].comparison.difference.n, report.notes) == (40, [])
    rows = [{"id": str(at), "question": f"When did bridge {at} open?", "answers": [str(1931 - at)]} for at in range(40)]
    (tmp_path / "other.jsonl").write_text("\n".join(map(json.dumps, rows)))
    other = EvalSettings(data=f"jsonl:{tmp_path / 'other.jsonl'}", systems=())
    evaluate(other, tmp_path / "other", own=[Scripted("concat", 30)], quiet=True)
    report = read_report([first, tmp_path / "other"])
    assert [pair.comparison.difference.n for pair in report.pairs] == [1]
    assert report.notes == ["39 questions, or their right answers, differ between the systems: these are not compared."]


def test_the_main_metric_may_be_chosen(run: Path) -> None:
    assert read_report(run, "contains").main == "contains"
    with pytest.raises(UsageError, match="no 'rouge_l' score"):
        read_report(run, "rouge_l")


def test_what_has_no_score_is_noted(questions: Questions, tmp_path: Path) -> None:
    words = Metric("words", "Words", "Words of the answer.", lambda _, state: 2.0, percent=False)
    settings = EvalSettings(data=questions(2), systems=("concat",), metrics=("words", "rouge_l"))
    evaluate(settings, tmp_path / "run", own=[words], quiet=True)
    report = read_report(tmp_path / "run")
    assert report.notes == ["No question has a rouge_l score: the metric does not apply, or no verdict could be read."]
    assert [metric.label for metric in report.metrics] == ["Words"]  # as the run described it
    assert report.main == "words"
    assert "| 2.0 [2.0, 2.0] |" in markdown(report)


def test_names_are_only_text(run: Path) -> None:
    report = read_report(run)
    report.lines[1] = replace(report.lines[1], system="<script>a|b\nc")
    assert "| &lt;script>a\\|b c |" in markdown(report)
    assert "<script>" not in html(report)
