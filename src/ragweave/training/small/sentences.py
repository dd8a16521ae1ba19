"""From silver rows to sentences with labels: what a filter of sentences learns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ragweave.tools.filters import Span, lexical
from ragweave.tools.text.sentences import split_sentences
from ragweave.training.rows import SilverRow

_SHARE = 0.5


class LabelledSpan(NamedTuple):
    """A sentence of a passage, and whether the oracle kept it."""

    span: Span
    keep: bool


def sentences_of(row: SilverRow) -> list[LabelledSpan]:
    """Return the sentences of a row's passages, in order, each with its label.

    A sentence is one to keep if a kept span covers half of it, or if half of a kept span lies in
    it: spans may come from another sentence splitter, or be whole passages.
    """
    kept: dict[str, list[tuple[int, int]]] = {}
    for span in row["spans"]:
        kept.setdefault(span["passage_id"], []).append((span["start"], span["end"]))
    made = []
    for passage in row["passages"]:
        wanted = kept.get(passage["id"], [])
        for text, start, end in split_sentences(passage["text"]):
            keep = any(_overlap(start, end, *one) for one in wanted)
            made.append(LabelledSpan(_span(passage["id"], text, start, end), keep))
    return made


def negative_weights(question: str, texts: Sequence[str], hard: float) -> list[float]:
    """Return the weight of each negative of a question; their mean is 1.

    The one that shares the most words with the question weighs `1 + hard` times as much as one
    that shares none: it is what a filter by words would keep by mistake.
    """
    close = [lexical(text, question) for text in texts]
    most = max(close, default=0.0)
    raw = [1 + hard * one / most if most else 1.0 for one in close]
    return [one * len(raw) / sum(raw) for one in raw]


def _overlap(start: int, end: int, first: int, last: int) -> bool:
    shared = min(end, last) - max(start, first)
    return shared > 0 and shared >= _SHARE * min(end - start, last - first)


def _span(name: str, text: str, start: int, end: int) -> Span:
    return {"passage_id": name, "start": start, "end": end, "text": text, "score": 0.0}
