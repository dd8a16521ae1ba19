"""Loaded texts, passages, and the chunkers that cut one into the other.

A chunker returns spans of the text, so that every passage is verbatim and has its offsets. A package
declares one as an entry point of the group `ragweave.chunkers`:

    CHUNKER = ChunkerKind(name="lines", summary="One passage per line.",
                          cut=lambda loaded, measure: lines_of(loaded.text))

Long tables are cut between rows before any chunker sees them. Each of their passages repeats the
table's header.
"""

import hashlib
import locale
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from math import inf
from operator import itemgetter
from typing import Any, NamedTuple

from langchain_core.embeddings import Embeddings

from ragweave.errors import UsageError
from ragweave.registry import Registry
from ragweave.state.passages import BOXES, indexed_text
from ragweave.tools.knowledge.settings import IndexSettings
from ragweave.tools.text.untrusted import LONGEST_TITLE
from ragweave.tools.text.words import WORD, split_sentences, word_spans

Span = tuple[int, int]
"""Start and end in characters: `text[start:end]`."""
Box = tuple[float, float, float, float]
"""Left, top, right, bottom in points, from the top left corner of the page as it is shown (rotated, cropped)."""

MAX_FIELD = 1_000
"""Longest metadata value, in characters; a longer one is left out, or cut if it is a cell of a row."""
_MAX_FIELDS = 4_000
"""Longest metadata of a text, in characters; the rest is left out, as every passage would repeat it."""
TABLE = "table"
"""Metadata of a row: the number of its table in the sheet or file. The fields that are not reserved are its columns."""
_MAX_HEADER = 1_000
"""Longest header of a table, in characters, that its passages repeat."""
_WORD = re.compile(r"\S+")
_TOKEN = rf"{WORD}|[^\w\s]"
_LINE = re.compile(r"[^\n]*\S[^\n]*")
_LONGEST_WORD = 200
"""Longest word, in characters; a longer run counts as several."""
_PERCENTILE = 95
"""Percentile of the distances between neighbouring sentences above which a passage ends."""
_SEPARATORS = (r"\n\s*\n", r"\n", r"(?<=[。！？])(?![。！？」』”’）])")
"""Paragraphs, lines, sentences of scripts without spaces between words."""
_MARKDOWN = (r"\n(?=#{1,6} )", r"\n(?=```)", r"\n(?=(?:\*{3,}|-{3,}|_{3,})\n)")
"""Headings, code blocks and rules."""


class UnreadableError(Exception):
    """A file cannot be read; the message is the reason, on one line."""


class Remark(str):
    """A line about a file that was read completely; any other line says what was not read."""


class Heading(NamedTuple):
    """A heading within a text."""

    start: int
    """Offset of its first character."""
    level: int
    """1 is the highest."""
    text: str


class Table(NamedTuple):
    """A table within a text; each of its lines is a row."""

    start: int
    body: int
    """Offset of the first row after the header."""
    end: int


class Word(NamedTuple):
    """A word within a text, or a paragraph, whose place on its page cannot be found in the file again, or not cheaply."""

    start: int
    end: int
    box: Box


@dataclass(frozen=True)
class Loaded:
    """A text of a file: all of it, or a row of a table."""

    text: str
    title: str = ""
    id: str | None = None
    """The id that the source gives, if any."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """JSON values to keep with every passage, as far as `fields` has them."""
    pages: tuple[int, ...] = ()
    """Offsets at which pages 1, 2, … begin, for a text that has pages."""
    headings: tuple[Heading, ...] = ()
    tables: tuple[Table, ...] = ()
    words: tuple[Word, ...] = ()
    """In order; of text that was recognised, or read by another program."""

    def place(self, offset: int) -> dict[str, Any]:
        """Return `page` and `heading_path` of the character at `offset`, where it has them."""
        return self._places[bisect_right(self._places, offset, key=itemgetter(0)) - 1][1]

    def breaks(self, start: int, end: int) -> list[tuple[int, dict[str, Any]]]:
        """Return the offsets between `start` and `end` at which page or headings change, and these."""
        first = bisect_right(self._places, start, key=itemgetter(0))
        return self._places[first : bisect_left(self._places, end, key=itemgetter(0))]

    def fields(self, start: int = 0) -> dict[str, Any]:
        """Return the metadata that the passage at an offset has: values of up to 1,000 characters, the first 4,000 of all.

        The first passage of a row has all its cells: tables are made of it.
        """
        fields, left = {}, inf if TABLE in self.metadata and not start else _MAX_FIELDS
        for name, value in self.metadata.items():
            size = len(str(value))
            stored = len(name) + size + len('"": "", ')
            if size <= MAX_FIELD and stored <= left:
                left -= stored
                fields[name] = value
        return fields

    @cached_property
    def _places(self) -> list[tuple[int, dict[str, Any]]]:
        places: list[tuple[int, dict[str, Any]]] = []
        above: list[Heading] = []
        heads = {heading.start: heading for heading in self.headings}
        for at in sorted({0, *self.pages, *heads}):
            if head := heads.get(at):
                above = [*(heading for heading in above if heading.level < head.level), head]
            path = [heading.text[:LONGEST_TITLE] for heading in above]
            path = path[1:] if path[:1] == [self.title] else path
            page = {"page": max(bisect_right(self.pages, at), 1)} if self.pages else {}
            places.append((at, page | ({"heading_path": path} if path else {})))
        return places


class Passage(NamedTuple):
    """A passage as the store keeps it."""

    name: str
    """Its public id: the document's own (`id#n` where it is cut), else a content id."""
    document: str | None
    """The id of the document that it was cut from."""
    content: str
    """Hash of all that is indexed of it: title, headings and text."""
    text: str
    metadata: dict[str, Any]


def _each(pattern: str | re.Pattern[str], text: str) -> list[Span]:
    """Return the spans that a pattern finds; each letter of a script without spaces is a span."""
    spans = [match.span() for match in re.finditer(pattern, text)]
    if not text.isascii():
        spans = [letter for span in spans for letter in word_spans(text, *span)]
    return [(at, min(at + _LONGEST_WORD, end)) for start, end in spans for at in range(start, end, _LONGEST_WORD)]


def _within(units: list[Span], start: int, end: int) -> list[Span]:
    """Return the units of which a part is between two offsets."""
    return units[bisect_right(units, start, key=itemgetter(1)) : bisect_left(units, end, key=itemgetter(0))]


@dataclass(frozen=True)
class Measure:
    """Counts what the settings say (words, sentences, or tokens of the embedding model), and cuts by it."""

    settings: IndexSettings
    """With `size` and `overlap`."""
    embeddings: Embeddings | None = None

    def units(self, text: str) -> list[Span]:
        """Return the spans of what `size` counts; tokens by rule, unless the model gives them."""
        if self.settings.unit == "words":
            return _each(_WORD, text)
        if self.settings.unit == "sentences":
            return self.sentences(text)
        spans: list[Span] = getattr(self.embeddings, "token_spans", partial(_each, _TOKEN))(text)
        return spans

    def sentences(self, text: str) -> list[Span]:
        """Return the spans of sentences."""
        code = locale.locale_alias.get(self.settings.language, "en")[:2]  # the only table of language names at hand
        return [(sentence.start, sentence.end) for sentence in split_sentences(text, code)]

    def windows(self, text: str) -> Iterator[Span]:
        """Join `size` units at a time; neighbours share `overlap` units, and every unit is covered."""
        units, size, overlap = self.units(text), self.settings.size, self.settings.overlap
        for first in range(0, max(len(units) - overlap, min(len(units), 1)), size - overlap):
            window = units[first : first + size]
            yield window[0][0], window[-1][1]

    def pack(self, units: list[Span], pieces: Iterable[Span]) -> Iterator[Span]:
        """Join pieces (sentences or lines, in order), as many as fit into `size`; a longer piece is cut.

        A passage repeats the last pieces of the one before it, up to `overlap`. `units` are the text's.
        """
        size, overlap = self.settings.size, self.settings.overlap
        taken: list[tuple[int, int, int]] = []  # spans, and how many units each has
        for low, high in pieces:
            within = _within(units, low, high)
            spans = [(low, high, len(within))]
            if len(within) > size:
                step = overlap or size
                cuts = [within[at : at + step] for at in range(0, len(within), step)]
                spans = [(max(cut[0][0], low), min(cut[-1][1], high), len(cut)) for cut in cuts]
            for start, end, count in spans:
                if taken and sum(before for *_, before in taken) + count > size:
                    yield taken[0][0], taken[-1][1]
                    while taken and sum(before for *_, before in taken) > min(overlap, size - count):
                        del taken[0]
                taken.append((start, end, count))
        if taken:
            yield taken[0][0], taken[-1][1]


Chunker = Callable[[Loaded, Measure], Iterable[Span]]
"""Takes a text with its headings; gives the spans of its passages, in order."""


def _fixed(loaded: Loaded, measure: Measure) -> Iterable[Span]:
    return measure.windows(loaded.text)


def _whole_sentences(loaded: Loaded, measure: Measure) -> Iterable[Span]:
    return measure.pack(measure.units(loaded.text), measure.sentences(loaded.text))


def _sections(loaded: Loaded, measure: Measure) -> Iterable[Span]:
    starts = [(0, 99), *((heading.start, heading.level) for heading in loaded.headings)]
    for (start, level), (end, below) in pairwise([*starts, (len(loaded.text), 0)]):
        section = Loaded(loaded.text[start:end])
        # A heading without text is in the path of those under it.
        if below <= level or section.text.partition("\n")[2].strip("\n=- "):
            yield from ((start + a, start + b) for a, b in _whole_sentences(section, measure))


def _semantic(loaded: Loaded, measure: Measure) -> Iterable[Span]:
    """Cut where the two sentences before and the two after are furthest apart.

    Source: Hearst 1997, "TextTiling", with embeddings for words; the percentile is that of Kamradt
    2023, "5 Levels of Text Splitting", level 4, and of LangChain's `SemanticChunker`.
    """
    import numpy as np

    if measure.embeddings is None:
        raise UsageError("the chunker 'semantic' needs an embedding model (--embedding minilm)")
    sentences = measure.sentences(loaded.text)
    edges = [0, len(sentences)]
    if len(sentences) > 2:
        # One sentence stands before the first boundary, and one after the last.
        pairs = pairwise([sentences[0], *sentences, sentences[-1]])
        rows = np.array(measure.embeddings.embed_documents([loaded.text[a[0] : b[1]] for a, b in pairs]))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        distances = 1 - (rows[:-2] * rows[2:]).sum(axis=1)
        edges[1:1] = (np.flatnonzero(distances > np.percentile(distances, _PERCENTILE)) + 1).tolist()
    units = measure.units(loaded.text)
    for first, end in pairwise(edges):
        yield from measure.pack(units, sentences[first:end])


def _recursive(loaded: Loaded, measure: Measure, separators: Sequence[str] = _SEPARATORS) -> Iterable[Span]:
    """Cut at the first separator what is too long, and so on, as LangChain's `RecursiveCharacterTextSplitter`."""
    units = measure.units(loaded.text)

    def pieces(start: int, end: int, level: int) -> Iterator[Span]:
        if level == len(separators) or len(_within(units, start, end)) <= measure.settings.size:
            yield start, end
            return
        matches = re.compile(separators[level]).finditer(loaded.text, start, end)
        for a, b in pairwise([start, *(match.end() for match in matches), end]):
            yield from pieces(a, b, level + 1)

    return measure.pack(units, pieces(0, len(loaded.text), 0))


@dataclass(frozen=True)
class ChunkerKind:
    """The declaration of a chunker: its name, and how to make one."""

    name: str
    summary: str
    """One line about where it cuts."""
    cut: Chunker
    unit: str | None = None
    """What `size` counts, if not what the settings say."""


def _kinds() -> list[ChunkerKind]:
    markdown = partial(_recursive, separators=_MARKDOWN + _SEPARATORS)
    return [
        ChunkerKind("fixed", "a fixed number of words (sentences, tokens), as the papers cut Wikipedia", _fixed),
        ChunkerKind("sentences", "whole sentences, as many as fit", _whole_sentences),
        ChunkerKind("headings", "the sections under each heading, long ones at whole sentences", _sections),
        ChunkerKind("recursive", "paragraphs, lines, then words", _recursive),
        ChunkerKind("markdown", "the same at Markdown's headings, code blocks and rules first", markdown),
        ChunkerKind("token", "a fixed number of tokens of the embedding model", _fixed, unit="tokens"),
        ChunkerKind("semantic", "where the embedding of neighbouring sentences changes most", _semantic),
    ]


CHUNKERS: Registry[ChunkerKind] = Registry("ragweave.chunkers", ChunkerKind, "chunker", _kinds)
"""Every chunker by name: ours, then those of other packages (entry points `ragweave.chunkers`)."""


def passages_of(loaded: Loaded, settings: IndexSettings, embeddings: Embeddings | None = None) -> list[Passage]:
    """Return the passages of a text, in order; white space alone gives none.

    Raises:
        UsageError: There is no such chunker, or it needs an embedding model.
    """
    chunker = CHUNKERS.named(settings.chunker)
    measure = Measure(replace(settings, unit=chunker.unit or settings.unit), embeddings)
    cuts: list[tuple[int, int, str]] = []  # start, end, and the header of its table, which the passage repeats
    done = 0
    for table in loaded.tables:
        if table.start < done or not loaded.text[table.body : table.end].strip():  # a header alone is prose
            continue
        rows = loaded.text[table.start : table.end]
        if len(measure.units(rows)) > settings.size:
            cuts += _prose(loaded, done, table.start, measure)
            cuts += _rows(loaded.text, table, measure)
            done = table.end
        elif len(rows) == len(loaded.text):  # a row of a table is a passage
            return [passage_of(loaded, 0, len(rows))]
    cuts += _prose(loaded, done, len(loaded.text), measure)
    return [passage_of(loaded, *cut, f"#{number}" * (len(cuts) > 1)) for number, cut in enumerate(cuts)]


def _prose(loaded: Loaded, start: int, end: int, measure: Measure) -> Iterator[tuple[int, int, str]]:
    """Yield the passages between two offsets, without the white space around them."""
    heads = (head._replace(start=head.start - start) for head in loaded.headings if start <= head.start < end)
    between = Loaded(loaded.text[start:end], loaded.title, headings=tuple(heads))
    for a, b in CHUNKERS.named(measure.settings.chunker).cut(between, measure):
        text = between.text[a:b]
        if text.strip():
            first = start + a + len(text) - len(text.lstrip())
            yield first, first + len(text.strip()), ""


def _rows(text: str, table: Table, measure: Measure) -> Iterator[tuple[int, int, str]]:
    """Yield passages of whole rows. Each repeats the header, but of one longer than half a passage only its beginning."""
    lead, start, size = text[table.start : table.body], table.body, measure.settings.size
    units = measure.units(lead)
    end = units[: size // 2][-1][1] if size > 1 and len(units) > size // 2 else len(lead)
    if end < len(lead) or end > _MAX_HEADER:
        lead, start = f"{lead[: min(end, _MAX_HEADER)]}\n", table.start  # the whole header is passages of its own
    body = text[start : table.end]
    lines = (match.span() for match in _LINE.finditer(body))
    free = size - min(len(units), size // 2)
    narrow = replace(measure, settings=replace(measure.settings, size=max(free, 1), overlap=0))
    for a, b in narrow.pack(measure.units(body), lines):
        yield start + a, start + b, lead


def boxed_words(metadata: Mapping[str, Any]) -> list[Word]:
    """Return the words of a passage whose boxes are stored; offsets are the passage's."""
    return [
        Word(start, end, (left, top, right, bottom)) for start, end, left, top, right, bottom in metadata.get(BOXES, ())
    ]


def content_hash(text: str, metadata: Mapping[str, Any]) -> str:
    """Return the hash of all that is indexed of a passage."""
    return hashlib.sha256(indexed_text(text, metadata).encode("utf-8", "replace")).hexdigest()[:32]


def passage_of(loaded: Loaded, start: int, end: int, lead: str = "", number: str = "") -> Passage:
    """Return the passage `text[start:end]` of a text; `lead`, a table's header, stands before it.

    `metadata["breaks"]` lists [offset in the passage, page and headings from there on] wherever
    they change within it, so that a quote is cited by its own place, not by the passage's.
    `number` is what its id adds to the document's.
    """
    text = lead + loaded.text[start:end]
    meta = {**loaded.fields(start), "title": loaded.title[:LONGEST_TITLE], "start": start, "end": end}
    meta |= loaded.place(start)
    if breaks := [[at - start + len(lead), place] for at, place in loaded.breaks(start, end)]:
        meta["breaks"] = breaks
    first = bisect_right(loaded.words, start, key=itemgetter(1))
    if words := loaded.words[first : bisect_left(loaded.words, end, key=itemgetter(0))]:
        shift = len(lead) - start
        meta[BOXES] = [[word.start + shift, word.end + shift, *(round(edge, 1) for edge in word.box)] for word in words]
    content = content_hash(text, meta)
    name = f"{loaded.id}{number}" if loaded.id else content[:16]
    return Passage(name, loaded.id, content, text, meta)
