"""From kept spans to filtered passages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from langchain_core.documents import Document

from ragweave.state.passages import with_id
from ragweave.tools.filters.spans import Span

CHARACTERS_A_TOKEN = 4
"""What an English token takes on average; saved tokens are an estimate from characters."""


class Filtered(NamedTuple):
    """What is left of passages after a filter."""

    passages: list[Document]
    full: bool
    """True: no span was kept, so these are the full passages (the released code's fallback)."""


def apply_spans(passages: Sequence[Document], spans: Iterable[Span]) -> Filtered:
    """Build the filtered passages: of each its kept spans, in reading order.

    A filtered passage keeps its id, rank and other metadata and gains `metadata["spans"]`, a list
    of `[start, end]` into the text that it was filtered from, and `metadata["full_length"]`, that
    text's length in characters. Spans that overlap are merged, offsets beyond the text are
    clipped, spans of other passages are ignored. A passage without spans, or whose id came before,
    is dropped.

    Args:
        passages: Best first; their order is kept.
        spans: What a filter kept, in any order.
    """
    wanted: dict[str, list[tuple[int, int]]] = {}
    for span in spans:
        wanted.setdefault(span["passage_id"], []).append((span["start"], span["end"]))
    named = list(map(with_id, passages))
    kept = [
        _cut(passage, merged)
        for passage in named
        if (merged := _merged(wanted.pop(str(passage.id), ()), len(passage.page_content)))
    ]
    return Filtered(kept or named, full=not kept)


def saved_tokens(before: Iterable[Document], after: Iterable[Document]) -> int:
    """Estimate the tokens that a filter kept out of a prompt (characters / 4), at least 0."""
    dropped = _length(before) - _length(after)
    return max(0, dropped // CHARACTERS_A_TOKEN)


def _length(passages: Iterable[Document]) -> int:
    """Return the characters of all texts together."""
    return sum(len(passage.page_content) for passage in passages)


def _merged(pairs: Iterable[tuple[int, int]], length: int) -> list[list[int]]:
    """Clip offsets to the text, sort them and merge those that overlap."""
    merged: list[list[int]] = []
    for start, end in sorted((max(0, start), min(end, length)) for start, end in pairs):
        if start >= end:
            continue
        if merged and start < merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def _cut(passage: Document, spans: list[list[int]]) -> Document:
    """Return a copy of `passage` that holds only `spans`."""
    text = passage.page_content
    return passage.model_copy(
        update={
            "page_content": " ".join(text[start:end] for start, end in spans),
            "metadata": {**passage.metadata, "spans": spans, "full_length": len(text)},
        }
    )
