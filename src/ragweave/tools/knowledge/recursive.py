"""The algorithm of LangChain's `RecursiveCharacterTextSplitter`, over spans.

LangChain gives the passages without their offsets. Where passages share text, and a text repeats
itself, nothing else tells where one of them stood.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from ragweave.tools.text.letters import UNSPACED_MARK

Span = tuple[int, int]
BETWEEN_SIGNS = rf"(?!{UNSPACED_MARK})"
"""Between any two characters, but for a mark and the letter that it belongs to."""
FINER = (r"\n\n", r"\n", r"(?<=[。！？])(?![。！？」』”’）])", " ", BETWEEN_SIGNS)
"""Paragraphs, lines, sentences of scripts without spaces between words, words, characters."""


def recursive_spans(
    text: str, separators: Sequence[str], length: Callable[[str], int], size: int, overlap: int
) -> list[Span]:
    """Return the spans of a text's passages, without white space around them.

    A text is cut in front of its first separator; a part that is too long, at the next ones.
    Neighbouring parts are joined.

    Args:
        text: The text.
        separators: Patterns, the coarsest first; the last fits between characters.
        length: Counts the units of a text.
        size: Most units in a passage.
        overlap: Most units that a passage repeats of the one before it; below `size`.
    """

    def passages(whole: Span, separators: Sequence[str]) -> Iterator[Span]:
        separator, finer = _separator(text[slice(*whole)], separators)
        short: list[tuple[Span, int]] = []
        for part in _parts(text, whole, separator):
            if (count := length(text[slice(*part)])) < size:
                short.append((part, count))
                continue
            yield from _joined(short, size, overlap)
            short = []
            yield from passages(part, finer) if finer else [part]
        yield from _joined(short, size, overlap)

    found = passages((0, len(text)), separators)
    return [_bare(text, span) for span in found if text[slice(*span)].strip()]


def _separator(text: str, separators: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the first separator that a text holds, and those behind it."""
    at = next(at for at, one in enumerate(separators) if re.search(one, text))
    return separators[at], separators[at + 1 :]


def _parts(text: str, whole: Span, separator: str) -> Iterator[Span]:
    """Yield the parts of a span, which begin at its start and at each separator."""
    first, end = whole
    starts = (first + one.start() for one in re.finditer(separator, text[first:end]))
    return pairwise([first, *(start for start in starts if first < start < end), end])


def _joined(parts: Sequence[tuple[Span, int]], size: int, overlap: int) -> Iterator[Span]:
    """Join neighbouring parts, given with their lengths, up to `size`, with up to `overlap`."""
    kept: deque[tuple[Span, int]] = deque()
    total = 0
    for part, count in parts:
        if kept and total + count > size:
            yield kept[0][0][0], kept[-1][0][1]
            while total > overlap or (total and total + count > size):
                total -= kept.popleft()[1]
        kept.append((part, count))
        total += count
    if kept:
        yield kept[0][0][0], kept[-1][0][1]


def _bare(text: str, span: Span) -> Span:
    """Return a span without the white space around its text."""
    piece = text[slice(*span)]
    start = span[0] + len(piece) - len(piece.lstrip())
    return start, start + len(piece.strip())
