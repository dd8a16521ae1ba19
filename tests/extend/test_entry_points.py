"""Metrics, formats, models, filters and file types of another package, by its entry points."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import run
from tests.packages import installed, lay_package

from ragweave import KnowledgeBase

OTHERS = """
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever

from ragweave.datasets import Format, Question
from ragweave.evaluation import Metric, given
from ragweave.tools.filters import FilterKind
from ragweave.tools.knowledge.chunking import Loaded
from ragweave.tools.knowledge.loaders import FileType
from ragweave.tools.providers import ModelProvider


def _read(row):
    yield Question(id=str(row.number), question=row.text("riddle"), answers=(row.text("solution"),))


class Fixed(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(f"The school is in Norhaven. {n} gulls sit on it.") for n in range(9)]


def first(question, segments, answers, settings):
    return [1.0] * len(segments)


METRIC = Metric(
    name="brief", label="Brief answers", summary="Few words.", higher_is_better=False,
    compute=lambda question, state: len(given(state).split()) / 10,
)
FORMAT = Format(
    name="riddles", summary="Riddles.", read=_read, fields=(("riddle", "solution"),),
)
PROVIDER = ModelProvider(
    name="echo", spec="echo:WORD", summary="Says WORD.",
    make=lambda name, settings: FakeListChatModel(responses=[name], **settings),
)
FILTER = FilterKind(name="first", summary="The first ones.", scores=first)
FILE_TYPE = FileType(
    name="backwards", suffixes=(".txet", ".md"), summary="The text, read backwards.",
    load=lambda name, file, settings: [Loaded(file.read().decode()[::-1], name)],
)
"""
POINTS = {
    "ragweave.metrics": {"brief": "others:METRIC"},
    "ragweave.datasets": {"riddles": "others:FORMAT"},
    "ragweave.models": {"echo": "others:PROVIDER"},
    "ragweave.filters": {"first": "others:FILTER"},
    "ragweave.file_types": {"backwards": "others:FILE_TYPE"},
}


@pytest.fixture
def others(tmp_path: Path) -> Iterator[None]:
    """Another package with one declaration of each kind."""
    with installed(lay_package(tmp_path / "site", "others", OTHERS, POINTS)):
        yield


def test_all_work_together_on_the_command_line(tmp_path: Path) -> None:
    rows = [{"riddle": f"Where is the school? ({n})", "solution": "Norhaven"} for n in range(3)]
    (tmp_path / "qa.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    with installed(lay_package(tmp_path / "site", "others", OTHERS, POINTS)):
        done = run(
            *("eval", "qa.jsonl", "--methods", "filco[filter=first,top=2,k=3]", "--metrics"),
            *("em,brief", "--model", "echo:Norhaven", "--retriever", "others:Fixed", "--out", "run"),
            cwd=tmp_path,
        )
    assert done.returncode == 0, done.stderr
    assert "Brief answers" in done.stdout
    lines = [*map(json.loads, (tmp_path / "run/results.jsonl").read_text("utf-8").splitlines())]
    assert [line["scores"] for line in lines] == [{"em": 1.0, "brief": 0.1}] * 3
    assert [len(line["retrieved"]["question"]) for line in lines] == [3] * 3
    texts = [[passage["text"] for passage in line["passages"]] for line in lines]
    assert texts == [["The school is in Norhaven. 0 gulls sit on it."]] * 3
    # a report is written, with label and direction, where the package isn't installed
    done = run("report", "run", "--out", "report", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "**Brief answers**: Few words. Lower is better." in (tmp_path / "report/report.md").read_text("utf-8")


@pytest.mark.usefixtures("others")
def test_they_are_listed_with_their_package() -> None:
    for group, points in POINTS.items():
        (name,) = points
        facts = json.loads(run("methods", "--kind", group.partition(".")[2], "--json").stdout)
        assert (facts[-1]["name"], facts[-1]["package"]) == (name, "others 0.2")
        assert facts[0]["package"] == "ragweave"
    assert "others 0.2" in run("methods", "--kind", "metrics").stdout


@pytest.mark.usefixtures("others")
def test_files_of_their_types_are_read(tmp_path: Path) -> None:
    for name, text in {"a.txet": "nevahroN", "b.md": "dnalsI", "c.txt": "Forwards"}.items():
        (tmp_path / name).write_text(text, "utf-8")
    index = ("index", "a.txet", "b.md", "c.txt", "--kb", "kb", "--embedding", "none")
    assert run(*index, cwd=tmp_path).returncode == 0
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert {doc.page_content for doc in kb.passages()} == {"Norhaven", "Island", "Forwards"}


def test_a_broken_package_is_one_warning_and_no_more(tmp_path: Path) -> None:
    points = {"ragweave.methods": {"shaky": "shaky:METHOD"}}
    with installed(lay_package(tmp_path, "shaky", "import nothing_of_this_name", points)):
        listed, shaky, concat = (run("methods", *name) for name in ((), ("shaky",), ("concat",)))
    assert listed.returncode == 0
    assert "concat_pf" in listed.stdout
    (line,) = listed.stderr.splitlines()
    assert "'shaky' of the package shaky 0.2 (shaky:METHOD) can't be loaded" in line
    assert "nothing_of_this_name" in line
    assert shaky.returncode == 2
    assert "the package shaky 0.2" in shaky.stderr
    assert len(shaky.stderr.splitlines()) == 1
    assert (concat.returncode, concat.stderr) == (0, "")
