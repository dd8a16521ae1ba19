"""Cutting a text into passages that know where they stand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from ragweave.tools.knowledge.settings import Settings
from ragweave.tools.text.sentences import split_sentences

Span = tuple[int, int]
"""Start and end in characters: `text[start:end]`."""

Tokens = Callable[[str], list[Span]]
"""The offsets of a text's tokens."""

_CODES = {
    "arabic": "ar",
    "armenian": "hy",
    "basque": "eu",
    "catalan": "ca",
    "czech": "cs",
    "danish": "da",
    "dutch": "nl",
    "dutch_porter": "nl",
    "english": "en",
    "esperanto": "eo",
    "estonian": "et",
    "finnish": "fi",
    "french": "fr",
    "german": "de",
    "greek": "el",
    "hindi": "hi",
    "hungarian": "hu",
    "indonesian": "id",
    "irish": "ga",
    "italian": "it",
    "lithuanian": "lt",
    "nepali": "ne",
    "norwegian": "no",
    "persian": "fa",
    "polish": "pl",
    "porter": "en",
    "portuguese": "pt",
    "romanian": "ro",
    "russian": "ru",
    "serbian": "sr",
    "sesotho": "st",
    "spanish": "es",
    "swedish": "sv",
    "tamil": "ta",
    "turkish": "tr",
    "yiddish": "yi",
}

_WORD = re.compile(r"\S+")
_TOKEN = re.compile(r"\w+|[^\w\s]")


def simple_tokens(text: str) -> list[Span]:
    """Return runs of word characters and single other signs: tokens without a model."""
    return [match.span() for match in _TOKEN.finditer(text)]


def windows(spans: Sequence[Span], size: int, overlap: int = 0) -> Iterator[Span]:
    """Join `size` spans at a time; neighbours share `overlap` spans, and every span is covered."""
    for first in range(0, max(len(spans) - overlap, min(len(spans), 1)), size - overlap):
        part = spans[first : first + size]
        yield part[0][0], part[-1][1]


def split(text: str, settings: Settings, tokens: Tokens = simple_tokens) -> list[Span]:
    """Cut `text` into the passages that `settings` ask for.

    Args:
        text: Any text; white space alone gives no passage.
        settings: `unit`, `size`, `overlap` and `language`.
        tokens: Offsets of the tokens where the unit is tokens.
    """
    if settings.unit == "words":
        spans = [match.span() for match in _WORD.finditer(text)]
    elif settings.unit == "sentences":
        code = _CODES.get(settings.language, "en")
        spans = [(sentence.start, sentence.end) for sentence in split_sentences(text, code)]
    else:
        spans = tokens(text)
    return list(windows(spans, settings.size, settings.overlap))
