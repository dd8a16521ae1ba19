"""Texts that name a part's folder, and those that name something else."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tiny_parts import finish

from ragweave.errors import UsageError
from ragweave.tools.models.specs import is_part_spec, part_spec
from ragweave.trained.card import absolute_spec, inspect_part


@pytest.mark.parametrize(
    ("text", "folder", "query"),
    [
        ("judge/", "judge", ""),
        ("./judge", "judge", ""),
        ("/parts/judge?threshold=0.6", "/parts/judge", "threshold=0.6"),
        ("part:judge", "judge", ""),
        (" part:a:b?threshold=1 ", "a:b", "threshold=1"),
        ("..", "..", ""),
        ("C:\\parts\\judge?threshold=0.6", "C:\\parts\\judge", "threshold=0.6"),
        ("part:c:/parts/judge", "c:/parts/judge", ""),
        ("c:/parts/judge", "c:/parts/judge", ""),
    ],
)
def test_texts_that_name_a_folder(text: str, folder: str, query: str) -> None:
    assert part_spec(text) == (Path(folder), query)


@pytest.mark.parametrize(
    "text",
    [
        "extractive",
        "openai:org/model",
        "ollama:mistral",
        "llamacpp:/m/x.gguf",
        "llamacpp:C:\\m\\x.gguf",
        "C:judge",
        "gpt",
        "",
        "lexical",
    ],
)
def test_texts_that_name_none(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert not is_part_spec(text)


def test_a_name_is_a_folder_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("judge", "extractive"):
        (tmp_path / name).mkdir()
    assert is_part_spec("judge")
    assert not is_part_spec("extractive"), "a model's name wins over a folder of that name"
    assert is_part_spec("extractive/")


def test_home_is_filled_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert part_spec("~/judge") == (tmp_path / "judge", "")


def test_absolute_specs_mean_the_same_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish(tmp_path / "judge", "judge", "cross-encoder")
    monkeypatch.chdir(tmp_path)
    told = absolute_spec("judge/?threshold=0.6")
    assert told == f"part:{tmp_path.resolve()}/judge?threshold=0.6"
    monkeypatch.chdir("/")
    assert absolute_spec(told) == told
    assert absolute_spec("openai:org/model") == "openai:org/model"
    for missing in ("nowhere/", "C:/nowhere/judge"):
        with pytest.raises(UsageError, match="no such folder"):
            absolute_spec(missing)


def test_another_training_is_another_part(tmp_path: Path) -> None:
    folder = str(finish(tmp_path / "judge", "judge", "cross-encoder", threshold=0.5))
    card, digest = inspect_part(folder)
    assert (card.role, inspect_part(folder)[1]) == ("judge", digest)
    finish(tmp_path / "judge", "judge", "cross-encoder", threshold=0.6)
    assert inspect_part(folder)[1] != digest
