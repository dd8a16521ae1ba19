"""Chunkers: how a text becomes passages, by name.

A chunker gives spans of the text, so that every passage is verbatim and knows its offsets. Long
tables are cut between rows before any chunker sees them, and each part repeats the table's header.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ragweave.errors import MissingExtraError, UsageError
from ragweave.tools.knowledge.passages import Loaded, Table
from ragweave.tools.knowledge.settings import Settings
from ragweave.tools.text.letters import WORD, apart
from ragweave.tools.text.sentences import split_sentences

Span = tuple[int, int]
"""Start and end in characters: `text[start:end]`."""
Tokens = Callable[[str], list[Span]]
"""The offsets of a text's tokens."""
Chunker = Callable[[Loaded, Settings, Tokens], list[Span]]

_WORD = re.compile(r"\S+")
_TOKEN = re.compile(rf"{WORD}|[^\w\s]")
_LINE = re.compile(r"[^\n]*\S[^\n]*")
_LONGEST_WORD = 200
"""Characters of one word; of a longer run each 200 count as one."""


class Chunk(NamedTuple):
    """The span of a passage, and what is repeated before it: the header of its table."""

    start: int
    end: int
    lead: str = ""


def _each(pattern: re.Pattern[str], text: str) -> list[Span]:
    """Return the spans a pattern finds; letters of scripts without spaces are spans one by one."""
    found = [match.span() for match in pattern.finditer(text)]
    if not text.isascii():
        found = [span for one in found for span in apart(text, *one)]
    return [
        (at, min(at + _LONGEST_WORD, end))
        for start, end in found
        for at in range(start, end, _LONGEST_WORD)
    ]


def simple_tokens(text: str) -> list[Span]:
    """Return runs of word characters and single other characters: tokens without a model."""
    return _each(_TOKEN, text)


def _sentences(text: str, language: str) -> list[Span]:
    code = {"english": "en", "german": "de", "french": "fr", "spanish": "es"}.get(
        language, language[:2]
    )
    return [(one.start, one.end) for one in split_sentences(text, code)]


def units(text: str, settings: Settings, tokens: Tokens) -> list[Span]:
    """Return the spans of what `settings.unit` counts: words, sentences or tokens."""
    if settings.unit == "words":
        return _each(_WORD, text)
    return _sentences(text, settings.language) if settings.unit == "sentences" else tokens(text)


def windows(spans: Sequence[Span], size: int, overlap: int = 0) -> Iterator[Span]:
    """Join `size` spans at a time; neighbours share `overlap` spans, and every span is covered."""
    for first in range(0, max(len(spans) - overlap, min(len(spans), 1)), size - overlap):
        part = spans[first : first + size]
        yield part[0][0], part[-1][1]


def pack(
    pieces: Sequence[Span], counted: Sequence[Span], size: int, overlap: int
) -> Iterator[Span]:
    """Join whole pieces, as many as fit into `size`; a longer piece is cut into windows.

    Args:
        pieces: Spans of sentences or lines, in order, without overlap.
        counted: Spans of the units that `size` and `overlap` count.
        size: Most units in a passage.
        overlap: Most units, in whole pieces, that a passage repeats of the one before it.
    """
    starts, ends = [one[0] for one in counted], [one[1] for one in counted]
    edges = [(bisect_right(ends, start), bisect_left(starts, end)) for start, end in pieces]
    first = 0
    for at, (begin, end) in enumerate(edges):
        if end - edges[first][0] > size and first < at:
            yield pieces[first][0], pieces[at - 1][1]
            back = at
            while back - 1 > first and edges[at - 1][1] - edges[back - 1][0] <= overlap:
                back -= 1
            first = back if end - edges[back][0] <= size else at
        if end - begin > size:
            yield from windows(counted[begin:end], size, overlap)
            first = at + 1
    if first < len(pieces):
        yield pieces[first][0], pieces[-1][1]


def _fixed(loaded: Loaded, settings: Settings, tokens: Tokens) -> list[Span]:
    return list(windows(units(loaded.text, settings, tokens), settings.size, settings.overlap))


def _whole_sentences(loaded: Loaded, settings: Settings, tokens: Tokens) -> list[Span]:
    pieces = _sentences(loaded.text, settings.language)
    counted = units(loaded.text, settings, tokens)
    return list(pack(pieces, counted, settings.size, settings.overlap))


def _sections(loaded: Loaded, settings: Settings, tokens: Tokens) -> list[Span]:
    edges = sorted({0, len(loaded.text), *(one.start for one in loaded.headings)})
    return [
        (start + a, start + b)
        for start, end in pairwise(edges)
        for a, b in _whole_sentences(Loaded(loaded.text[start:end]), settings, tokens)
    ]


def _by_langchain(name: str) -> Chunker:
    """Return a chunker by LangChain's splitters; offsets are theirs (`add_start_index`)."""

    def cut(loaded: Loaded, settings: Settings, tokens: Tokens) -> list[Span]:
        try:
            import langchain_text_splitters as splitters
        except ImportError:
            raise MissingExtraError(f"The chunker {name!r}", "documents") from None
        common: dict[str, Any] = {
            "chunk_size": settings.size,
            "chunk_overlap": settings.overlap,
            "length_function": lambda text: len(units(text, settings, tokens)),
            "add_start_index": True,
        }
        recursive: Any = splitters.RecursiveCharacterTextSplitter
        made = (
            recursive(**common) if name == "recursive" else recursive.from_language(name, **common)
        )
        found = made.create_documents([loaded.text])
        starts = [(one.metadata["start_index"], len(one.page_content)) for one in found]
        return [(start, start + length) for start, length in starts if start >= 0]

    return cut


CHUNKERS: dict[str, Chunker] = {
    "fixed": _fixed,
    "sentences": _whole_sentences,
    "headings": _sections,
    **{name: _by_langchain(name) for name in ("recursive", "markdown", "python", "latex", "html")},
}
"""Every chunker by name. `fixed`, `sentences` and `headings` are ours; the rest LangChain's."""


def chunks(loaded: Loaded, settings: Settings, tokens: Tokens = simple_tokens) -> list[Chunk]:
    """Return the passages of a text, in order.

    Raises:
        UsageError: There is no such chunker.
    """
    if settings.chunker not in CHUNKERS:
        known = ", ".join(CHUNKERS)
        raise UsageError(f"unknown chunker {settings.chunker!r}; choose one of: {known}")
    found: list[Chunk] = []
    done = 0
    for table in loaded.tables:
        rows = loaded.text[table.start : table.end]
        if table.start >= done and len(units(rows, settings, tokens)) > settings.size:
            found += _prose(loaded, done, table.start, settings, tokens)
            found += _rows(loaded.text, table, settings, tokens)
            done = table.end
    return [*found, *_prose(loaded, done, len(loaded.text), settings, tokens)]


def _prose(loaded: Loaded, start: int, end: int, settings: Settings, tokens: Tokens) -> list[Chunk]:
    """Return the passages of a part of a text, white space around them left out."""
    first, last = (
        bisect_left(loaded.headings, at, key=lambda one: one.start) for at in (start, end)
    )
    heads = (one._replace(start=one.start - start) for one in loaded.headings[first:last])
    part = Loaded(loaded.text[start:end], loaded.title, headings=tuple(heads))
    found = []
    for a, b in CHUNKERS[settings.chunker](part, settings, tokens):
        text = part.text[a:b]
        if text.strip():
            lead = len(text) - len(text.lstrip())
            found.append(Chunk(start + a + lead, start + b - len(text) + len(text.rstrip())))
    return found


def _rows(text: str, table: Table, settings: Settings, tokens: Tokens) -> list[Chunk]:
    """Return passages of whole rows; the header counts, up to half of a passage."""
    lead = text[table.start : table.body]
    room = settings.size - min(len(units(lead, settings, tokens)), settings.size // 2)
    lines = [(table.body + a, table.body + b) for a, b in _spans(text[table.body : table.end])]
    counted = units(text[table.body : table.end], settings, tokens)
    counted = [(table.body + a, table.body + b) for a, b in counted]
    return [Chunk(a, b, lead) for a, b in pack(lines, counted, max(room, 1), 0)]


def _spans(text: str) -> list[Span]:
    return [one.span() for one in _LINE.finditer(text)]
