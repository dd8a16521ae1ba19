"""Sentence splitting by sentencex (Wikimedia): about 300 languages, nothing to download."""

from __future__ import annotations

from typing import NamedTuple

import sentencex


class Sentence(NamedTuple):
    """A sentence and where it stands: `text == source[start:end]`."""

    text: str
    start: int
    end: int


def split_sentences(text: str, language: str = "en") -> list[Sentence]:
    """Split `text` into sentences without surrounding white space; offsets are characters.

    Args:
        text: Any text; white space alone gives an empty list.
        language: ISO 639-1 code; a language that sentencex lacks falls back to its nearest.
    """
    sentences: list[Sentence] = []
    cursor = 0
    for piece in sentencex.segment(language, text):
        start = text.index(piece, cursor)
        cursor = start + len(piece)
        stripped = piece.strip()
        if stripped:
            first = start + piece.index(stripped)
            sentences.append(Sentence(stripped, first, first + len(stripped)))
    return sentences
