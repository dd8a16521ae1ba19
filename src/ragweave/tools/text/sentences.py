"""Sentence splitting by sentencex (Wikimedia): about 300 languages, nothing to download."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import sentencex

_WINDOW = 4_000
"""Characters that sentencex sees at once: its time grows with the square of the quotes in them."""
_BLANKS = {
    ord(one): "\n" if one in "\x85\u2028\u2029" else " " for one in map(chr, range(0x80, 0x3001)) if one.isspace()
}
"""White space beyond ASCII to ASCII's: sentencex 1.0.32 panics over a capital between two such."""


class Sentence(NamedTuple):
    """A sentence and where it stands: `text == source[start:end]`."""

    text: str
    start: int
    end: int


def split_sentences(text: str, language: str = "en") -> list[Sentence]:
    """Split `text` into sentences without surrounding white space; offsets are characters.

    Takes time linear in the text: a long one is read in windows, each from the start of the
    sentence that the window before it could not end.

    Args:
        text: Any text; white space alone gives an empty list.
        language: ISO 639-1 code; a language that sentencex lacks falls back to its nearest.
    """
    sentences: list[Sentence] = []
    for start, end in _spans(text, language):
        piece = text[start:end]
        stripped = piece.strip()
        if stripped:
            first = start + len(piece) - len(piece.lstrip())
            sentences.append(Sentence(stripped, first, first + len(stripped)))
    return sentences


def _spans(text: str, language: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of the sentences, white space around them included."""
    offset = begin = 0
    while len(text) - offset > _WINDOW:
        found = list(_segments(text[offset : offset + _WINDOW], offset, language))
        for start, end in found[:-1]:
            yield min(begin, start), end
            begin = end
        ends = len(found) > 1 and found[-1][0] - offset >= _WINDOW // 2
        offset = found[-1][0] if ends else _cut(text, offset)
    for start, end in _segments(text[offset:], offset, language):
        yield min(begin, start), end
        begin = end
    yield begin, len(text)


def _segments(window: str, offset: int, language: str) -> Iterator[tuple[int, int]]:
    """Yield the spans, in the source, of the sentences of a window that begins at `offset`."""
    cursor = 0
    plain = window.translate(_BLANKS)
    for piece in _pieces(plain, language):
        start = plain.index(piece, cursor)
        cursor = start + len(piece)
        yield offset + start, offset + cursor


def _pieces(window: str, language: str) -> list[str]:
    """Return what sentencex finds; the window as one piece where it panics."""
    try:
        return list(sentencex.segment(language, window))
    except BaseException as error:
        # Rust's panics get past `except Exception`, and the extension does not export their class.
        if type(error).__name__ != "PanicException":
            raise
        return [window]


def _cut(text: str, offset: int) -> int:
    """Return where to continue inside a sentence longer than half a window: after a blank."""
    blank = text.rfind(" ", offset + _WINDOW // 2, offset + _WINDOW)
    return offset + _WINDOW if blank < 0 else blank + 1
