"""Spans of a sentence that may be a short answer: names, dates, numbers, phrases, lists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from ragweave.tools.extractive.question import STOP_WORDS, Token, tokens, word_set

SpanKind = Literal["name", "date", "number", "phrase", "quote", "list"]


class Span(NamedTuple):
    """A stretch of a sentence: `text == sentence[start:end]`."""

    text: str
    start: int
    end: int
    kind: SpanKind


_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b\.?"
)
_YEAR = r"(?:1\d{3}|20\d{2})"
_DATE = re.compile(
    rf"\b(?:{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?(?:,? {_YEAR})?|\d{{1,2}}(?:st|nd|rd|th)? (?:of )?"
    rf"{_MONTH}(?:,? {_YEAR})?|{_MONTH},? {_YEAR}|(?:early|mid|late)[- ](?:{_YEAR}s|\w+ century)"
    rf"|(?:\w+ )?(?:\d+(?:st|nd|rd|th)|first|second|third|fourth|fifth|sixth|\w+teenth|\w+ieth)"
    rf"(?:[ -]century)(?: (?:BC|AD|BCE|CE))?|{_YEAR}\s?[–-]\s?(?:{_YEAR}|\d\d)\b"
    rf"|\d{{1,4}} (?:BC|BCE|AD|CE)\b|{_YEAR}s?\b|{_MONTH})"
)
_SPELLED = (
    r"one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|"
    r"fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|"
    r"seventy|eighty|ninety|hundred|thousand|million|billion|trillion|dozen|half|twice"
)
_ONE_NUMBER = rf"(?:[$£€]\s?)?(?:\d+(?:[,.]\d+)*(?:%|st|nd|rd|th)?(?!\w)|\b(?:{_SPELLED})\b)"
_NUMBER = re.compile(rf"{_ONE_NUMBER}(?:[ -]{_ONE_NUMBER})*", re.IGNORECASE)
_UNIT = re.compile(r"\s?(?:%|[^\W\d_]+(?:-[^\W\d_]+)?)(?: [^\W\d_]+)?")
_QUOTE = re.compile(r'["“«]([^"“”«»]{2,80})["”»]')
_LINKS = word_set(
    """
    's ’s of the de la von van der du del and & for in on to a di le
    """
)
_VERBS = word_set(
    """
    became become becomes began begin begins made make makes won win wins wrote write writes
    written said say says known called named played play plays led lead leads gave given gives
    took take takes taken came come comes went go goes found born died released located published
    directed produced starred stars starring used use uses founded introduced created based held
    includes include included including appears appeared remains according began featured features
    contains contain means blends mixes gives serves consists occurs stands refers received
    """
)
_EDGES = word_set(
    """
    also first then later originally currently usually often now still
    """
)


def spans(sentence: str) -> list[Span]:
    """Return the candidate answers of `sentence` by position; the first kind of a stretch wins."""
    words = tokens(sentence)
    seen: dict[tuple[int, int], Span] = {}
    for source in (_dates, _numbers, _quotes):
        for span in source(sentence):
            seen.setdefault((span.start, span.end), span)
    chunks = list(_chunks(words))
    for group, kind in _groups(words, chunks):
        start, end = words[group[0]].start, words[group[1] - 1].end
        seen.setdefault((start, end), Span(sentence[start:end], start, end, kind))
    return sorted(seen.values(), key=lambda span: (span.start, span.end))


def _dates(sentence: str) -> Iterator[Span]:
    for found in _DATE.finditer(sentence):
        yield Span(found.group(), found.start(), found.end(), "date")


def _numbers(sentence: str) -> Iterator[Span]:
    for found in _NUMBER.finditer(sentence):
        yield Span(found.group(), found.start(), found.end(), "number")
        unit = _UNIT.match(sentence, found.end())
        if unit is None:
            continue
        words = unit.group().split()
        while words and words[-1].lower() in STOP_WORDS | _VERBS:
            words.pop()
        for count in range(1, len(words) + 1):
            tail = words[count - 1]
            end = sentence.index(tail, found.end()) + len(tail)
            yield Span(sentence[found.start() : end], found.start(), end, "number")


def _quotes(sentence: str) -> Iterator[Span]:
    for found in _QUOTE.finditer(sentence):
        yield Span(found[1], found.start(1), found.end(1), "quote")


def _chunks(words: list[Token]) -> Iterator[tuple[int, int]]:
    """Yield maximal runs of content words as token ranges: noun phrases without a parser."""
    start = -1
    for index, word in enumerate([*words, Token(".", 0, 0)]):
        inside = word.is_word and not word.is_stop and word.text.lower() not in _VERBS
        if index and inside and words[index - 1].text in ",.;:":
            inside = word.is_word and not word.is_stop
        if inside and start < 0:
            start = index
        elif not inside and start >= 0:
            yield start, index
            start = -1


def _groups(
    words: list[Token], chunks: list[tuple[int, int]]
) -> Iterator[tuple[tuple[int, int], SpanKind]]:
    """Yield chunks, names inside them, chunks linked by "of", and enumerations of chunks."""
    for index, (start, end) in enumerate(chunks):
        yield from _parts(words, start, end)
        yield from _linked(words, chunks, index)
        yield from _listed(words, chunks, index)


def _parts(words: list[Token], start: int, end: int) -> Iterator[tuple[tuple[int, int], SpanKind]]:
    """Yield a chunk, its capitalised runs, and it without a weak first or last word."""
    yield (start, end), "name" if _named(words, start, end) else "phrase"
    run = start
    for index in range(start, end + 1):
        if index < end and _capital(words[index]):
            continue
        if index > run and (run, index) != (start, end):
            yield (run, index), "name"
        run = index + 1
    if end - start > 1:
        first, last = words[start].text.lower(), words[end - 1].text.lower()
        if first in _EDGES or first.endswith(("ly", "ed", "ing")):
            yield (start + 1, end), "name" if _named(words, start + 1, end) else "phrase"
        if last in _EDGES or last.endswith(("ly", "ed", "ing", "s")):
            yield (start, end - 1), "name" if _named(words, start, end - 1) else "phrase"


def _linked(
    words: list[Token], chunks: list[tuple[int, int]], index: int
) -> Iterator[tuple[tuple[int, int], SpanKind]]:
    """Yield a chunk joined to the next ones over "of the", "de", a comma before a name."""
    start = chunks[index][0]
    capital = chunks[index][1]
    while capital > start and _capital(words[capital - 1]):
        capital -= 1
    for other in range(index + 1, min(index + 4, len(chunks))):
        gap = words[chunks[other - 1][1] : chunks[other][0]]
        glue = [word.text.lower() for word in gap]
        before = words[chunks[other - 1][1] - 1]
        initial = glue == ["."] and len(before.text) == 1 and before.text.isupper()
        comma = glue == [","] and _capital(words[chunks[other][0]])
        if not (comma or initial or (0 < len(glue) <= 2 and all(word in _LINKS for word in glue))):
            return
        end = chunks[other][1]
        if end - start > 12:
            return
        yield (start, end), "name" if _named(words, start, end) else "phrase"
        if start < capital < chunks[index][1] and _named(words, capital, end):
            yield (capital, end), "name"


def _listed(
    words: list[Token], chunks: list[tuple[int, int]], index: int
) -> Iterator[tuple[tuple[int, int], SpanKind]]:
    """Yield an enumeration "A, B and C" that begins at a chunk, at its full length."""
    start, end = chunks[index]
    closed = False
    for other in range(index + 1, min(index + 20, len(chunks))):
        glue = [word.text.lower() for word in words[chunks[other - 1][1] : chunks[other][0]]]
        kept = [word for word in glue if word not in {"a", "an", "the", "of", "in", "to"}]
        joined = len(glue) <= 4 and all(word in {",", "and", "or", "&"} for word in kept)
        if not joined or (not kept and len(glue) > 2):
            break
        end = chunks[other][1]
        if "and" in kept or "or" in kept or "&" in kept:
            closed = True
            break
    if closed and end - start <= 40:
        yield (start, end), "list"


def _capital(word: Token) -> bool:
    return word.text[0].isupper() or (word.text[0].isdigit() and len(word.text) < 5)


def _named(words: list[Token], start: int, end: int) -> bool:
    """Are all content words capitalised (links between them may be small)?"""
    content = [word for word in words[start:end] if word.is_word and not word.is_stop]
    return bool(content) and all(map(_capital, content))
