"""A trained component's card, and folders that are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragweave.errors import UsageError
from ragweave.tools.providers import chat_model
from ragweave.tools.trained.card import CARD, Card, read_card, write_card
from ragweave.tools.trained.models import trained_filter

JUDGE = Card(role="judge", kind="linear", base="minilm", threshold=0.4, metrics={"auc": 0.7})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the card of a judge."""
    judge = tmp_path / "judge"
    judge.mkdir()
    write_card(judge, JUDGE)
    return judge


def test_a_card_is_read_as_it_was_written(folder: Path) -> None:
    assert read_card(folder, "judge") == JUDGE


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"role": "poet", "kind": "linear", "base": "minilm"}, "role"),
        ({"role": "filter", "kind": "linear", "base": "minilm"}, "linear component can't be a filter"),
        ({"role": "judge", "kind": "linear", "base": "minilm", "threshold": 2}, "threshold"),
        ({"role": "judge", "kind": "linear", "base": "minilm", "run": "rm -r"}, "run"),
    ],
)
def test_a_damaged_card_is_refused(folder: Path, fields: dict[str, object], message: str) -> None:
    (folder / CARD).write_text(json.dumps(fields), "utf-8")
    with pytest.raises(UsageError, match=message):
        read_card(folder)


def test_a_folder_without_a_card_did_not_finish(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did not finish"):
        read_card(tmp_path)


def test_a_file_is_no_component(tmp_path: Path) -> None:
    file = tmp_path / "model.bin"
    file.touch()
    with pytest.raises(UsageError, match="llamacpp:"):
        chat_model(str(file))


def test_each_role_is_used_as_what_it_is(folder: Path) -> None:
    with pytest.raises(UsageError, match="was trained as a judge, but a filter is needed"):
        trained_filter(f"{folder}/")
    write_card(folder, Card(role="filter", kind="bi-encoder", base="minilm"))
    with pytest.raises(UsageError, match="trained as a filter, which is not a chat model"):
        chat_model(f"{folder}/")


def test_weights_that_are_missing_are_named(folder: Path) -> None:
    from langchain_core.decisions import Noul

    from ragweave.errors import ModelError

    pytest.importorskip("transformers")
    judge = chat_model(f"{folder}/")
    with pytest.raises(ModelError, match="judge: can't be read"):
        judge.invoke(
            {"state": {"question": "Who?", "draft": "Ada"}, "questions": {"known": Noul(instructions="Known?")}}
        )
