"""Chunkers: how a text becomes passages, by name.

A chunker gives spans of the text, so that every passage is verbatim and knows its offsets. It is
declared by one value, whether ours or a package's:

    CHUNKER = ChunkerKind(name="lines", summary="A passage a line.",
                          make=lambda settings, tokens: cut_at_lines)

A package names it as an entry point of the group `ragweave.chunkers`; `ragweave index --chunker
lines` and `Settings(chunker="lines")` then select it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import pairwise, zip_longest

from ragweave.errors import MissingExtraError, UsageError
from ragweave.registry import Registry
from ragweave.tools.knowledge.manifest import Settings
from ragweave.tools.knowledge.markup import Heading
from ragweave.tools.knowledge.recursive import FINER, recursive_spans
from ragweave.tools.retrieval.embedding import named_embeddings
from ragweave.tools.text.letters import WORD, apart
from ragweave.tools.text.sentences import split_sentences

Span = tuple[int, int]
"""Start and end in characters: `text[start:end]`."""

Tokens = Callable[[str], list[Span]]
"""The offsets of a text's tokens."""

Chunker = Callable[[str, Sequence[Heading]], list[Span]]
"""Takes a text and its headings, in order; returns the spans of its passages."""

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
_TOKEN = re.compile(rf"{WORD}|[^\w\s]")


def simple_tokens(text: str) -> list[Span]:
    """Return runs of word characters and single other characters: tokens without a model.

    Letters of a script that puts no space between words are tokens one by one.
    """
    return _each(_TOKEN, text)


def _each(pattern: re.Pattern[str], text: str) -> list[Span]:
    """Return the spans that a pattern finds, those of words without spaces between them apart."""
    found = (match.span() for match in pattern.finditer(text))
    return list(found) if text.isascii() else [span for one in found for span in apart(text, *one)]


def windows(spans: Sequence[Span], size: int, overlap: int = 0) -> Iterator[Span]:
    """Join `size` spans at a time; neighbours share `overlap` spans, and every span is covered."""
    for first in range(0, max(len(spans) - overlap, min(len(spans), 1)), size - overlap):
        part = spans[first : first + size]
        yield part[0][0], part[-1][1]


def _sentences(text: str, settings: Settings) -> list[Span]:
    code = _CODES.get(settings.language, "en")
    return [(sentence.start, sentence.end) for sentence in split_sentences(text, code)]


def units(text: str, settings: Settings, tokens: Tokens) -> list[Span]:
    """Return the spans of what `settings.unit` counts in a text.

    A word is what stands between blanks, or one letter of a script without blanks between words.
    """
    if settings.unit == "words":
        return _each(_WORD, text)
    return _sentences(text, settings) if settings.unit == "sentences" else tokens(text)


def pack(
    pieces: Sequence[Span], counted: Sequence[Span], size: int, overlap: int = 0
) -> Iterator[Span]:
    """Join whole pieces, as many as fit into `size`; neighbours share pieces of up to `overlap`.

    A piece that is longer than `size` is cut into windows of its own. A unit that begins in one
    piece and ends in another counts in both.

    Args:
        pieces: Spans in order, without overlap.
        counted: Spans of the units that `size` and `overlap` count, in order, without overlap.
        size: Most units in a passage.
        overlap: Most units that a passage repeats of the one before it; below `size`.
    """
    starts, ends = [start for start, _ in counted], [end for _, end in counted]
    edges = [(bisect_right(ends, start), bisect_left(starts, end)) for start, end in pieces]
    first = 0
    for at, (begin, end) in enumerate(edges):
        if end - edges[first][0] > size and first < at:
            yield pieces[first][0], pieces[at - 1][1]
            first = _shared(edges, first, at, size, overlap)
        if end - begin > size:
            within = [_within(one, pieces[at]) for one in counted[begin:end]]
            yield from windows(within, size, overlap)
            first = at + 1
    if first < len(pieces):
        yield pieces[first][0], pieces[-1][1]


def _within(span: Span, piece: Span) -> Span:
    return max(span[0], piece[0]), min(span[1], piece[1])


def _shared(edges: Sequence[Span], first: int, at: int, size: int, overlap: int) -> int:
    """Return the piece at which the passage that goes on with piece `at` begins."""
    end, last = edges[at][1], edges[at - 1][1]
    begin = at
    while begin - 1 > first and last - edges[begin - 1][0] <= overlap:
        if end - edges[begin - 1][0] > size:
            break
        begin -= 1
    return begin


def pack_pieces(
    text: str, pieces: Sequence[Span], settings: Settings, tokens: Tokens, overlap: int
) -> list[Span]:
    """Return passages of whole pieces of a text, as `pack`."""
    return list(pack(pieces, units(text, settings, tokens), settings.size, overlap))


def _fixed(settings: Settings, tokens: Tokens) -> Chunker:
    def cut(text: str, _headings: Sequence[Heading]) -> list[Span]:
        return list(windows(units(text, settings, tokens), settings.size, settings.overlap))

    return cut


def _whole_sentences(settings: Settings, tokens: Tokens) -> Chunker:
    def cut(text: str, _headings: Sequence[Heading]) -> list[Span]:
        pieces = _sentences(text, settings)
        return pack_pieces(text, pieces, settings, tokens, settings.overlap)

    return cut


def _sections(settings: Settings, tokens: Tokens) -> Chunker:
    within = _whole_sentences(settings, tokens)

    def cut(text: str, headings: Sequence[Heading]) -> list[Span]:
        first = headings[0].start if headings else len(text)
        sections = [(0, first), *_with_text(text, headings)]
        return [
            (start + a, start + b)
            for start, end in sections
            for a, b in within(text[start:end], ())
        ]

    return cut


def _with_text(text: str, headings: Sequence[Heading]) -> Iterator[Span]:
    """Yield the spans of the sections; a heading alone is in the path of those under it."""
    for one, after in zip_longest(headings, headings[1:]):
        end = after.start if after else len(text)
        if text[one.end : end].strip() or after is None or after.level <= one.level:
            yield one.start, end


def _tokens(settings: Settings, tokens: Tokens) -> Chunker:
    return _fixed(replace(settings, unit="tokens"), tokens)


_BREAKS = 95
"""Percentile of the distances between neighbouring sentences above which a passage ends."""


def _semantic(settings: Settings, tokens: Tokens) -> Chunker:
    """Cut where the two sentences before and the two behind are furthest apart.

    Source: Hearst 1997, "TextTiling", with embeddings for words; the percentile is that of Kamradt
    2023, "5 Levels of Text Splitting", level 4, and of LangChain's `SemanticChunker`.
    """
    if settings.embedding is None:
        raise UsageError(
            "the chunker 'semantic' needs a named embedding model (--embedding minilm)"
        )
    embeddings = named_embeddings(settings.embedding)

    def cut(text: str, _headings: Sequence[Heading]) -> list[Span]:
        import numpy as np

        sentences = _sentences(text, settings)
        if len(sentences) < 3:
            return pack_pieces(text, sentences, settings, tokens, settings.overlap)
        # Before the first boundary stands one sentence, as behind the last.
        pairs = pairwise([sentences[0], *sentences, sentences[-1]])
        read = [text[one[0] : two[1]] for one, two in pairs]
        rows = np.array(embeddings.embed_documents(read))
        distances = 1 - (rows[:-2] * rows[2:]).sum(axis=1)
        ends = np.flatnonzero(distances > np.percentile(distances, _BREAKS)) + 1
        edges = [0, *ends.tolist(), len(sentences)]
        return [
            span
            for first, end in pairwise(edges)
            for span in pack_pieces(text, sentences[first:end], settings, tokens, settings.overlap)
        ]

    return cut


def _recursive(settings: Settings, tokens: Tokens) -> Chunker:
    return _at_separators(settings, tokens, FINER)


def _markdown(settings: Settings, tokens: Tokens) -> Chunker:
    if find_spec("langchain_text_splitters") is None:
        raise MissingExtraError(f"The chunker {settings.chunker!r}", "documents")
    from langchain_text_splitters import Language
    from langchain_text_splitters import RecursiveCharacterTextSplitter as Splitter

    separators = Splitter.get_separators_for_language(Language.MARKDOWN)
    finer = FINER[FINER.index(r"\n") + 1 :]
    return _at_separators(settings, tokens, [*separators[: separators.index(" ")], *finer])


def _at_separators(settings: Settings, tokens: Tokens, separators: Sequence[str]) -> Chunker:
    def cut(text: str, _headings: Sequence[Heading]) -> list[Span]:
        def length(part: str) -> int:
            return len(units(part, settings, tokens))

        return recursive_spans(text, separators, length, settings.size, settings.overlap)

    return cut


@dataclass(frozen=True, kw_only=True)
class ChunkerKind:
    """The declaration of a chunker: its name, and how to make one."""

    name: str
    summary: str
    """One line about where it cuts."""
    make: Callable[[Settings, Tokens], Chunker]
    """Makes the chunker of a knowledge base; `size`, `overlap` and `unit` are in its settings."""


_OURS = (
    ChunkerKind(
        name="fixed",
        summary="so many words (sentences, tokens) a passage, as the papers cut Wikipedia",
        make=_fixed,
    ),
    ChunkerKind(
        name="sentences",
        summary="whole sentences, as many as fit",
        make=_whole_sentences,
    ),
    ChunkerKind(
        name="headings",
        summary="the sections under each heading, long ones at whole sentences",
        make=_sections,
    ),
    ChunkerKind(
        name="recursive",
        summary="paragraphs, lines, then words: LangChain's RecursiveCharacterTextSplitter",
        make=_recursive,
    ),
    ChunkerKind(
        name="markdown",
        summary="the same at Markdown's headings, code blocks and rules first",
        make=_markdown,
    ),
    ChunkerKind(
        name="token",
        summary="so many tokens of the embedding model a passage",
        make=_tokens,
    ),
    ChunkerKind(
        name="semantic",
        summary="where the embedding of neighbouring sentences changes most",
        make=_semantic,
    ),
)

CHUNKERS: Registry[ChunkerKind] = Registry(
    "ragweave.chunkers", ChunkerKind, "chunker", lambda: _OURS
)
"""Every chunker by name: ours, then those of other packages (entry points `ragweave.chunkers`)."""


def chunker_of(settings: Settings, tokens: Tokens = simple_tokens) -> Chunker:
    """Return the chunker that the settings name.

    Args:
        settings: `chunker`, `unit`, `size`, `overlap` and `language`.
        tokens: Offsets of the tokens where the unit is tokens.

    Raises:
        UsageError: There is no such chunker.
        MissingExtraError: It needs a package that is not installed.
    """
    return CHUNKERS.named(settings.chunker).make(settings, tokens)


def split(text: str, settings: Settings, tokens: Tokens = simple_tokens) -> list[Span]:
    """Return the spans of the passages into which `settings` cut `text`, which has no headings.

    Args:
        text: Any text; white space alone gives no passage.
        settings: `chunker`, `unit`, `size`, `overlap` and `language`.
        tokens: Offsets of the tokens where the unit is tokens.
    """
    return chunker_of(settings, tokens)(text, ())
