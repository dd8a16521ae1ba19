"""Data sets of the Hugging Face hub: what is asked of its library, and what is said without it."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

import pytest

from ragweave.datasets import open_dataset
from ragweave.errors import MissingExtraError, UsageError


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "datasets" else found(name)
    )
    with pytest.raises(MissingExtraError, match=r"ragweave\[hub\]"):
        open_dataset("hf:nq_open")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Stand in for the library, which needs a network; record what it was asked for."""
    asked: list[tuple[Any, ...]] = []

    def load_dataset(name: str, config: str | None, *, split: str, streaming: bool) -> Any:
        asked.append((name, config, split, streaming))
        if name == "gone":
            raise FileNotFoundError("no such\ndata set")
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


def test_what_cannot_be_had_is_told_in_a_line(hub: list[tuple[Any, ...]]) -> None:
    with pytest.raises(UsageError, match=r"hf:gone: cannot be downloaded .*: no such data set"):
        open_dataset("hf:gone")
