"""Data sets of the Hugging Face hub: what is asked of its library, and what is said without it."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ragweave.datasets import open_dataset
from ragweave.datasets.hub import PAPERS_NAMES
from ragweave.datasets.subsets import note_of
from ragweave.errors import MissingExtraError, UsageError
from ragweave.evaluation.runs import RunConfig, parse_systems, plan
from ragweave.evaluation.runs.run import checked
from ragweave.training.labels.source import Item, open_source


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "datasets" else found(name)
    )
    with pytest.raises(MissingExtraError, match=r"ragweave\[hub\]"):
        open_dataset("hf:nq_open")


ERRORS: dict[str, Exception] = {
    "gone": FileNotFoundError("no such\ndata set"),
    "script": RuntimeError("Dataset scripts are no longer supported, but found script.py"),
    "split": ValueError("Bad split: validation. Available splits: ['train']"),
    "offline": ConnectionError("Couldn't reach it"),
}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Stand in for the library, which needs a network; record what it was asked for."""
    asked: list[tuple[Any, ...]] = []

    def load_dataset(name: str, config: str | None, *, split: str, streaming: bool) -> Any:
        asked.append((name, config, split, streaming))
        if name in ERRORS:
            raise ERRORS[name]
        if name == "mine":
            return iter([{"key": n, "asked": f"q{n}", "gold": f"a{n};b{n}"} for n in range(30)])
        rows = [{"question": f"q{n}", "answer": [f"a{n}"]} for n in range(3610)]
        if name in PAPERS_NAMES and config == "whole":
            return iter(rows)
        return iter([{"question": "q", "answer": ["x"]}, {"question": "r", "answer": ["y"]}])

    library = ModuleType("datasets")
    library.load_dataset = load_dataset  # type: ignore[attr-defined]
    library.__spec__ = importlib.util.spec_from_loader("datasets", loader=None)
    monkeypatch.setitem(sys.modules, "datasets", library)
    return asked


def test_rows_are_streamed_and_their_format_told(hub: list[tuple[Any, ...]]) -> None:
    dataset = open_dataset("hf:nq_open?split=train&config=plain")
    assert [(one.question, one.answers) for one in dataset] == [("q", ("x",)), ("r", ("y",))]
    assert dataset.form.name == "nq_open"
    assert set(hub) == {("nq_open", "plain", "train", True)}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gone", r"cannot be downloaded \(is that its name on the hub\?\): no such data set"),
        ("script", "cannot be read: Dataset scripts are no longer supported"),
        ("split", "cannot be read: Bad split: validation"),
        ("offline", r"cannot be downloaded \(is there a network connection\?\): Couldn't reach"),
    ],
)
def test_what_cannot_be_had_is_told_in_a_line(
    hub: list[tuple[Any, ...]], name: str, said: str
) -> None:
    with pytest.raises(UsageError, match=f"^hf:{name}: {said}"):
        open_dataset(f"hf:{name}")


FIELDS = "question=asked&answers=gold&id=key&separator=;"


def test_fields_are_named_and_questions_selected_as_in_files(
    hub: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    whole = open_dataset(f"hf:mine?{FIELDS}")
    assert [(one.id, one.question) for one in whole][-1] == ("29", "q29")
    assert next(iter(whole)).answers == ("a0", "b0")

    def drawn(query: str) -> list[str]:
        return [one.id for one in open_dataset(f"hf:mine?{FIELDS}&{query}")]

    assert drawn("random=5&seed=7") == drawn("random=5&seed=7") != drawn("random=5&seed=8")
    assert len(drawn("random=5&seed=7")) == 5
    listed = tmp_path / "ids.json"
    listed.write_text(json.dumps([3, "11"]), "utf-8")
    assert drawn(f"ids={listed}") == ["3", "11"]


def test_a_runs_ids_are_found_from_any_directory(
    hub: list[tuple[Any, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ids.json").write_text('["3"]', "utf-8")
    with monkeypatch.context() as there:
        there.chdir(tmp_path)
        made = plan(f"hf:mine?{FIELDS}&ids=ids.json", parse_systems("direct"), {"answer": "m"})
    assert made.questions == 1
    assert [one.id for one in open_dataset(made.dataset)] == ["3"]
    whole = f"hf:mine?{FIELDS}&split=train[:10]"
    assert plan(whole, parse_systems("direct"), {"answer": "m"}).dataset == whole


@pytest.mark.parametrize("name", ["nq_open", "google-research-datasets/nq_open"])
def test_the_papers_questions_of_a_published_file_are_on_the_hub(
    hub: list[tuple[Any, ...]], name: str
) -> None:
    spec = f"hf:{name}?subset=filco&config=whole"
    dataset = open_dataset(spec)
    assert (dataset.name, dataset.size) == ("nq", 3610)
    assert note_of(dataset.name, spec).startswith("filco asks all 3,610")
    assert open_dataset(f"hf:{name}").name == "nq_open", "runs of earlier versions call it so"


@pytest.mark.parametrize("query", ["random=5&seed=7", "ids={ids}"])
def test_a_run_that_passed_its_selection_over_is_not_resumed(
    query: str, hub: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    (tmp_path / "ids.json").write_text('["3"]', "utf-8")
    spec = f"hf:mine?{FIELDS}&{query.format(ids=tmp_path / 'ids.json')}"
    made = plan(spec, parse_systems("direct"), {"answer": "m"})
    checked(made, RunConfig())
    whole = plan(f"hf:mine?{FIELDS}", parse_systems("direct"), {"answer": "m"})
    checked(whole, RunConfig())
    earlier = replace(made, questions=whole.questions)
    with pytest.raises(UsageError, match=r"selects [15] questions, and the run began with 30 "):
        checked(earlier, RunConfig())


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("splt=train", r"hf:nq_open: unknown setting 'splt' \(did you mean 'split'\?\)"),
        ("seed=7", "seed=… goes with random=…"),
        ("subset=blendfilter", "no subset 'blendfilter' of nq; there are"),
        ("subset=filco", "the file holds 2 of 3,610 questions: filco asks all 3,610"),
        ("question=asked", "expected asked, answers or answer"),
        ("id=key", "no row up to here has the field 'key'"),
    ],
)
def test_settings_that_mean_nothing_are_refused(
    hub: list[tuple[Any, ...]], query: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        list(open_dataset(f"hf:nq_open?{query}"))


def test_rows_to_label_are_of_the_fields_named(hub: list[tuple[Any, ...]]) -> None:
    first = next(open_source(f"hf:mine?{FIELDS}").read())
    assert isinstance(first, Item)
    assert (first.text, first.id) == ("q0", "0")
    assert first.question is not None
    assert first.question.answers == ("a0", "b0")
    with pytest.raises(UsageError, match="unknown setting 'random'"):
        open_source("hf:mine?random=5")
