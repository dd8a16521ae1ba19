"""The page on trained parts: its code runs, over parts that are there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from tests.scripted import ListRetriever
from tests.tiny_parts import make_scorer, make_writer

from ragweave.cli.options import NAMED, with_named
from ragweave.evaluation.runs import parse_systems
from ragweave.graphs.build import method_named
from ragweave.graphs.method import parse_options
from ragweave.trained.forms import generator_input, judge_input

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "trained-parts.md"
TEXT = PAGE.read_text("utf-8")
QUESTION = "Who designed the Cedar Bridge?"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a part of each role."""
    pairs = [(QUESTION, "Ada Moreno", True), (QUESTION, "nobody", False)]
    make_scorer(tmp_path / "judge", "judge", pairs)
    make_scorer(tmp_path / "filter", "filter", pairs)
    make_writer(tmp_path / "rewriter", "rewriter", {judge_input(QUESTION, "?").text: "x"})
    make_writer(tmp_path / "generator", "generator", {generator_input(QUESTION, []).text: "Ada"})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_code_of_the_page_runs(here: Path) -> None:
    shelf = ListRetriever(documents=[Document(page_content="Ada Moreno designed it. It is long.")])
    names: dict[str, Any] = {"shelf": shelf}
    blocks = re.findall(r"^```py\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, str(PAGE), "exec", dont_inherit=True), names)
    assert names["graph"].invoke({"question": QUESTION})["question"] == QUESTION


def test_the_commands_of_the_page_are_understood(here: Path) -> None:
    lines = [shlex.split(line) for line in TEXT.splitlines() if line.startswith("ragweave ")]
    options = [
        (words, words[at + 1])
        for words in lines
        for at, word in enumerate(words)
        if word == "--option"
    ]
    assert len(options) >= 6
    for words, text in options:
        models, rest = with_named({}, [text])
        assert models or parse_options(rest, method_named("filco")), words
    assert {text.partition("=")[0] for _, text in options} == {*NAMED, "filter"}
    [methods] = [words[words.index("--methods") + 1] for words in lines if "eval" in words]
    assert [one.label for one in parse_systems(methods)] == ["filco", "filco[filter=filter/,top=2]"]
