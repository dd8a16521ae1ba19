"""From the text that a filter wrote back to the spans of the passages that it copied.

A filter that writes (FILCO's M_ctx) should copy sentences, and may not: a tokenizer has no token
for some character, a word is changed, a sentence is made up. What goes into a prompt is always the
passages' own text; what cannot be found in them is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from langchain_core.documents import Document

from ragweave.state.passages import with_id
from ragweave.tools.filters.measures import lexical
from ragweave.tools.filters.spans import Span, scored, spans_of
from ragweave.tools.text.sentences import split_sentences

LEAST = 0.5
"""Unigram F1 that a sentence of a passage needs to pass for what was written."""

_TOKEN = re.compile(r"\w+|[^\w\s]")


class _Text(NamedTuple):
    """A passage in small letters, its tokens parted by single spaces, and where each stands."""

    passage: Document
    folded: str
    places: list[tuple[int, int, int]]
    """For each token: start in `folded`, start and end in the passage."""


def aligned(written: str, passages: Sequence[Document]) -> list[Span]:
    """Return the spans of the passages that a text quotes, in the order in which it does.

    Each sentence is looked for as it stands, white space and case aside (score 1); failing that,
    the most similar sentence of any passage takes its place, by unigram F1 from `LEAST` up (its
    score). A span comes once.

    Args:
        written: What the filter wrote; may be empty.
        passages: Best first; where two fit equally well the first is taken.
    """
    if not written.strip():
        return []
    texts = [_folded(passage) for passage in map(with_id, passages)]
    sentences = spans_of(passages)
    found: dict[tuple[str, int, int], Span] = {}
    for piece, _, _ in split_sentences(written):
        span = next(_exact(piece, texts), None) or _similar(piece, sentences)
        if span is not None:
            found.setdefault((span["passage_id"], span["start"], span["end"]), span)
    return list(found.values())


def _exact(piece: str, texts: Sequence[_Text]) -> Iterator[Span]:
    """Yield the places where the passages hold all tokens of `piece` in a row."""
    wanted = " ".join(_TOKEN.findall(piece.lower()))
    if not wanted:
        return
    for text in texts:
        at = f" {text.folded} ".find(f" {wanted} ")
        if at < 0:
            continue
        inside = [one for one in text.places if at <= one[0] < at + len(wanted)]
        start, end = inside[0][1], inside[-1][2]
        yield {
            "passage_id": str(text.passage.id),
            "start": start,
            "end": end,
            "text": text.passage.page_content[start:end],
            "score": 1.0,
        }


def _similar(piece: str, sentences: Sequence[Span]) -> Span | None:
    """Return the sentence that shares most words with `piece`, or None where none shares enough."""
    rated = [scored(one, lexical(one["text"], piece)) for one in sentences]
    best = max(rated, key=lambda one: one["score"], default=None)
    return best if best is not None and best["score"] >= LEAST else None


def _folded(passage: Document) -> _Text:
    tokens: list[str] = []
    places: list[tuple[int, int, int]] = []
    cursor = 0
    for match in _TOKEN.finditer(passage.page_content):
        token = match.group().lower()
        places.append((cursor, match.start(), match.end()))
        tokens.append(token)
        cursor += len(token) + 1
    return _Text(passage, " ".join(tokens), places)
