"""What a contract suite says of single runs: whether their output is whole, and what they were given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.documents import Document

from ragweave.testing.harness import OUTPUTS, Run, as_json

MARK = "zqxv"
"""What stands in no passage, question or prompt of ours: odd replies bear it."""


def given(run: Run) -> list[Document]:
    """Return the passages that a run was given."""
    return list(run.setting.input.get("passages", ()))


def said(run: Run) -> str:
    """Return how a run was set, for an error's text."""
    return f"options {dict(run.setting.options)}, input {sorted(run.setting.input)}"


def well_formed(run: Run) -> None:
    """Assert that a run's output is whole and says one thing."""
    assert set(OUTPUTS) <= set(run.state), f"missing: {set(OUTPUTS) - set(run.state)}"
    output = run.output
    assert output["status"] in ("answered", "unknown")
    assert (output["answer"] == "Unknown") == (output["status"] == "unknown"), output["answer"]
    assert output["answer"].strip(), "the answer is empty"
    assert type(output["truncated"]) is bool, f"truncated is {output['truncated']!r}"
    plain(output)


def plain(values: Mapping[str, Any]) -> None:
    """Assert that values are plain JSON and documents."""
    for name, value in values.items():
        try:
            as_json(value)
        except (TypeError, ValueError) as error:
            raise AssertionError(f"{name} is not plain JSON: {error}") from error


def carried_on(run: Run) -> bool:
    """Say whether an odd reply went on into a prompt, a query or a candidate."""
    asked = [call.text for call in run.calls] + [query for query, _k in run.record.searches]
    said = [one["reply"] for one in run.output["candidates"].values()]
    return any(MARK in text for text in (*asked, *said))
