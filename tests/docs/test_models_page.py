"""The page on models: what it says of recorded replies is what their table says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "models.md").read_text("utf-8")
REPLIES = json.loads((ROOT / "benchmarks" / "results" / "replies.json").read_text("utf-8"))
SMALL = "qwen2.5-coder-0.5b"


def numbers(pattern: str) -> list[int]:
    """Return the numbers of the page's one passage of this form."""
    (found,) = re.findall(pattern, PAGE)
    return [int(one.replace(",", "")) for one in found]


def read_of(model: str, step: str = "", form: str = "") -> list[int]:
    """Return how many of a model's replies were read, and how many there are."""
    lines: list[dict[str, Any]] = [
        one
        for one in REPLIES["recorded"]["steps"]
        if one["model"] == model and step in ("", one["step"]) and form in ("", one["form"])
    ]
    count = sum(one["replies"] for one in lines)
    return [count - sum(one.get("unread", 0) for one in lines), count]


def test_the_replies_of_each_model_are_counted_as_recorded() -> None:
    large = numbers(r"([\d,]+) different replies, ([\d,]+) read\)")
    small = numbers(r"\(([\d,]+) replies, ([\d,]+) read\)")
    assert [large, small] == [read_of(one)[::-1] for one in ("qwen2.5-coder-1.5b", SMALL)]


def test_the_steps_that_were_read_worst_are_counted_as_recorded() -> None:
    notes = numbers(r"`chain_of_note` in free text \((\d+) of (\d+); [^,]+, (\d+) of (\d+)\)")
    forms = ("free text", "grammar")
    assert notes == [number for one in forms for number in read_of(SMALL, "chain_of_note", one)]
    assert numbers(r"`reason` \((\d+) of (\d+)") == read_of(SMALL, "reason")
    assert numbers(r"as a conversation, (\d+) of (\d+)\.") == read_of(SMALL, "react")


def test_the_annotated_replies_are_counted() -> None:
    (said,) = re.findall(r"`tests/recorded` holds (\d+) replies", PAGE)
    folder = ROOT / "tests" / "recorded"
    files = [*folder.glob("qwen*.jsonl"), *folder.glob("smollm2*.jsonl")]
    lines = [line for path in files for line in path.read_text("utf-8").splitlines()]
    annotated = REPLIES["annotated"]
    assert int(said) == len(lines) == sum(one["replies"] for one in annotated)
    assert all(one["as meant"] == one["replies"] for one in annotated)


SETTING = re.compile(r"^\| (`[^|]+) \|", re.MULTILINE)
OF_CALLS = {"streaming", "logprobs", "top_logprobs", "grammar"}
"""Fields that a program sets or binds, rather than a spec."""


def test_every_setting_of_a_local_model_has_a_row_of_its_own() -> None:
    from langchain_core.language_models import BaseChatModel

    from ragweave.tools.models.llamacpp import LlamaCppChat

    table = PAGE.partition("| setting | default |")[2].partition("\n\n")[0]
    rows = [re.findall(r"`([a-z_]+)(?:\.NAME)?`", cell) for cell in SETTING.findall(table)]
    assert [row for row in rows if len(row) != 1] == []
    ours = LlamaCppChat.model_fields.keys() - BaseChatModel.model_fields.keys()
    assert {row[0] for row in rows} == ours - OF_CALLS - {"path"}


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md", "docs/models.md"])
def test_the_pages_say_how_local_models_are_installed(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    assert re.search(r'pip install (-e )?"(ragweave|\.)\[llamacpp\]"', text)
    assert "C++ compiler" in text
