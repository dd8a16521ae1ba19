"""Reducers: how updates of parallel branches merge. No result depends on which came first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from langchain_core.documents import Document

from ragweave.errors import UsageError
from ragweave.state.passages import GIVEN, as_document, ranked
from ragweave.state.records import Candidate, Note, Usage

T = TypeVar("T")


def merge_by_key(old: Mapping[str, T] | None, new: Mapping[str, T] | None) -> dict[str, T]:
    """Join two mappings in key order; branches write disjoint keys, an edit replaces its key."""
    joined = {**(old or {}), **(new or {})}
    return {key: joined[key] for key in sorted(joined)}


def merge_candidates(
    old: Mapping[str, Candidate] | None, new: Mapping[str, Candidate] | None
) -> dict[str, Candidate]:
    """Join candidates by key, ordered by round, then passage rank, then sample, then key."""
    joined = {**(old or {}), **(new or {})}

    def place(key: str) -> tuple[int, int, int, str]:
        one = joined[key]
        return one["round"], one["rank"], one["sample"], key

    # LangGraph merges branch by branch, mostly in order: sorting each time would be quadratic.
    keys = list(joined)
    appended = old and new and len(new) == 1 and len(keys) == len(old) + 1
    if appended and place(keys[-2]) < place(keys[-1]):
        return joined
    return {key: joined[key] for key in sorted(joined, key=place)}


def add_usage(old: Usage | None, new: Usage | None) -> Usage:
    """Add two ledgers: numbers add up, flags join by `or`, tables add entry by entry."""
    return cast("Usage", _add(dict(old or {}), dict(new or {})))


def _add(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _add_values(old.get(key), new.get(key)) for key in sorted({*old, *new})}


def _add_values(old: Any, new: Any) -> Any:
    if old is None or new is None:
        one = new if old is None else old
        return _add(one, {}) if isinstance(one, dict) else one
    if isinstance(old, dict):
        return _add(old, new)
    return (old or new) if isinstance(old, bool) else old + new


def merge_notes(old: Sequence[Note] | None, new: Sequence[Note] | None) -> list[Note]:
    """Join notes in order of step, node, event and content."""
    return sorted(
        [*(old or ()), *(new or ())],
        key=lambda note: (
            note["step"],
            note["node"],
            note["event"],
            json.dumps(note["detail"], sort_keys=True, default=str),
        ),
    )


def no_usage() -> Usage:
    """Return an empty ledger."""
    return {
        "calls": 0,
        "input_tokens": 0,
        "output_tokens": 0,
        "estimated": False,
        "retrievals": 0,
        "by_role": {},
        "by_node": {},
    }


def take_passages(_old: object, new: Sequence[Any] | None) -> list[Document]:
    """Take passages that a caller hands in, as ranked documents marked `given`.

    Nodes write `passages` through `Overwrite`, which bypasses this reducer. So the mark tells
    passages handed in with this input from those that an earlier turn of the same thread left.

    Raises:
        UsageError: `new` is not a list of passages.
    """
    if isinstance(new, str | Mapping):
        raise UsageError(f"passages must be a list of passages, not one {type(new).__name__}")
    return ranked(map(as_document, new or ()), GIVEN)
