r"""Words and sentences of any script: normalised answers, estimated tokens, stems, one form of each word.

Python's `\w` leaves out combining marks, so that `\w+` finds the letters of किताब one by one. Sentences are
sentencex's (Wikimedia): about 300 languages, nothing to download.
"""

from __future__ import annotations

import math
import re
import string
import threading
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import sentencex
import Stemmer

from ragweave.tools.text.lines import Block, blocks
from ragweave.tools.text.numbers import month_begins

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

_UNSPACED = ("AHOM", "BALINESE", "JAVANESE", "KHMER", "LAO", "MYANMAR", "NEW TAI", "TAI", "THAI")
"""How the names of marks begin in scripts that put no space between words.

A run of their letters is a phrase, not a word; their marks go on to part it, so that phrases which
share some of their pieces are still found.
"""
_BLOCKS = (
    r"\u0e00-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f\u3005-\u312f\u31a0-\u31bf"
    r"\u31f0-\u31ff\u3400-\u4dbf\u4e00-\ua4cf\ua980-\ua9ff\uaa60-\uaadf\uf900-\ufaff\uff66-\uff9f"
    r"\U00011700-\U0001174f\U0001aff0-\U0001b16f\U00020000-\U0003fffd"
)
"""Blocks of such scripts: from Thai to Myanmar, Khmer, Tai, Balinese, kana, Han, Yi, Javanese."""
_SELECTORS = range(0xFE00, 0xFE10)
"""Variation selectors, which choose how a sign looks: `1️⃣` begins with the 1 of any other text."""


def _marks(codes: Iterable[int], belongs: Callable[[str], object]) -> str:
    """Return the marks among some codes as ranges of a regular expression's class."""
    marks = [code for code in codes if unicodedata.category(chr(code)) in ("Mn", "Mc") and belongs(chr(code))]
    runs = [[code for _, code in run] for _, run in groupby(enumerate(marks), lambda pair: pair[1] - pair[0])]
    return "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs)


def _is_spaced(mark: str) -> bool:
    return ord(mark) not in _SELECTORS and not unicodedata.name(mark).startswith(_UNSPACED)


_MARKS = rf"(?![\0-\u02ff])[{_marks(range(0x300, 0x1F000), _is_spaced)}]+"
"""A blank follows most words; the lookahead rules it out before the long class is tried."""

WORD = rf"\w+(?:{_MARKS}\w*)*"
"""Pattern of a word: letters, digits and underscores, each with its marks."""
LETTERS = rf"[^\W_]+(?:{_MARKS}[^\W_]*)*"
"""Pattern of a word without underscores."""

_UNSPACED_MARKS = _marks(
    (*range(0xE00, 0x3100), *range(0xA900, 0xAB00), *range(0x11700, 0x11750)), re.compile(f"[{_BLOCKS}]").match
)

UNSPACED_LETTER = rf"[{_BLOCKS}](?<=[^\W\d_])"
"""Pattern of a letter, syllable or ideograph of a script that puts no space between words."""
UNSPACED_MARK = rf"[{_UNSPACED_MARKS}\ufe00-\ufe0f\U000e0100-\U000e01ef]"
"""Pattern of a mark that belongs to the letter before it."""


_PARTS = rf"{UNSPACED_LETTER}{UNSPACED_MARK}*[^\w\s]*|(?:(?!{UNSPACED_LETTER})\S)+"


def word_spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the span of a word, `text[start:end]`, or of each letter of a script without spaces between words.

    Such a letter keeps its marks and the punctuation after it. A word without such letters is yielded as it is.
    """
    # Compiled at the first use, as the long classes take a while; `re` caches compiled patterns.
    if re.compile(UNSPACED_LETTER).search(text, start, end) is None:
        yield start, end
    else:
        yield from (part.span() for part in re.compile(_PARTS).finditer(text, start, end))


def folded(word: str) -> str:
    """Return a word in lower case and Unicode's form NFKC: composed accents, no ligatures.

    The capital İ becomes an i without the second dot that Python gives it.
    """
    return unicodedata.normalize("NFKC", word).lower().replace("i\u0307", "i")


_ACCENTS = re.compile("(?<![\u0400-\u052f])[\u0300-\u036f]+")
"""Accents of Latin and Greek; those of Cyrillic make other letters (й is not и)."""
_PLAIN = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "ŧ": "t", "ı": "i", "ё": "е"}
) | str.maketrans({"ß": "ss", "æ": "ae", "œ": "oe", "þ": "th"})


def unaccented(word: str) -> str:
    """Return a word in lower case as a keyboard without its accents writes it.

    Examples:
        >>> unaccented("café"), unaccented("bjørk"), unaccented("łódź"), unaccented("straße")
        ('cafe', 'bjork', 'lodz', 'strasse')
    """
    if word.isascii():
        return word
    plain = _ACCENTS.sub("", unicodedata.normalize("NFD", word.translate(_PLAIN)))
    return unicodedata.normalize("NFC", plain).translate(_PLAIN)


# ---- answers and tokens


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of `text`: one for four ASCII characters, one for two others.

    A rule of thumb for byte-pair vocabularies, within about a fifth for European text.
    """
    plain = len(text.encode("ascii", "ignore"))
    return math.ceil(plain / 4 + (len(text) - plain) / 2)


def first_tokens(text: str, max_tokens: int) -> str:
    """Return as much of the beginning of a text as has a number of tokens, by `estimate_tokens`."""
    end = bisect_right(range(len(text) + 1), max_tokens, key=lambda end: estimate_tokens(text[:end]))
    return text[: end - 1]


def estimate_message_tokens(messages: Sequence[BaseMessage]) -> int:
    """Estimate the tokens of a prompt, with three a message for its role and marks."""
    return sum(3 + estimate_tokens(message.text) for message in messages)


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation + "“”‘’–—…«»")
_APOSTROPHED = re.compile(rf"{LETTERS}(?:['’]{LETTERS})*")


def normalize_answer(text: str) -> str:
    """Lower-case `text`, drop punctuation and English articles, fold white space.

    Source: the SQuAD evaluation rule (Rajpurkar et al. 2016), which Liu et al. (section 4) use
    for votes and exact match. Typographic quotes and dashes count as punctuation too.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def words(text: str) -> list[str]:
    """Return the lower-cased words of `text` in order (letters with their marks, digits, inner apostrophes)."""
    return _APOSTROPHED.findall(text.lower())


# ---- content words

_FUNCTION_WORDS = """
a an the of in on at by for to from with without into onto over under and or but nor so as
than then that this these those it its itself he she they them him her his hers their theirs
we us our you your i me my is are was were be been being am do does did done doing has have
had having can could will would shall should may might must not no s t what which who whom
whose when where why how there here also just only about between during before after up out
off again if because while such both each some any all more most other per via upon within
among through across against according
"""
STOP_WORDS = frozenset(_FUNCTION_WORDS.split())
"""English function words."""

_TERM = re.compile(
    r"\d+(?:[.,:]\d+)*(?:st|nd|rd|th|s|%)?(?![^\W_])"
    rf"|['’]s\b|{LETTERS}(?:(?!['’]s\b)['’\-.&]{LETTERS})*"
)
_IN_BIGRAMS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_STEMMER, _LOCK = Stemmer.Stemmer("english"), threading.Lock()


def terms(text: str) -> list[str]:
    """Return the stems of the content words of `text`; scripts without spaces give bigrams."""
    stems: list[str] = []
    for word in map(folded, _TERM.findall(text)):
        if _IN_BIGRAMS.search(word):
            stems += [word[at : at + 2] for at in range(max(1, len(word) - 1))]
        elif word[0].isalnum() and word not in STOP_WORDS:
            stems.append(_stem(word.replace("’", "'")))
    return stems


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    with _LOCK:  # PyStemmer's stemmers are not safe under threads
        return str(_STEMMER.stemWord(word))


# ---- sentences

_PARAGRAPH = re.compile(r"(?s).{1,16384}?(?:\n\n|\Z)|.{1,16384}(?:[.!?]\s|[。！？])|.{1,16384}\s|.{1,16384}")
"""What sentencex reads at once: a paragraph, or as many of its sentences as fit. Its time grows with the square of
the number of quotes in a text."""
_OPEN = re.compile(r"[(\[][^()\[\].!?]{0,40}\s*\Z")
_DAY = re.compile(r"\b\d{1,2}\.\s*\Z")
_BLANKS = {
    ord(blank): "\n" if blank in "\x85\u2028\u2029" else " "
    for blank in map(chr, range(0x80, 0x3001))
    if blank.isspace()
}
"""Non-ASCII white space to ASCII's: sentencex 1.0.32 panics at a capital letter between two such characters."""


class Sentence(NamedTuple):
    """A sentence and where it stands: `text == source[start:end]`."""

    text: str
    start: int
    end: int


def split_sentences(text: str, language: str = "en") -> list[Sentence]:
    """Split `text` into sentences without surrounding white space; offsets are characters.

    A row of a table is a sentence, and so is a line of a form.

    Args:
        text: Any text; white space alone gives an empty list.
        language: ISO 639-1 code; a language that sentencex lacks falls back to its nearest.
    """
    sentences: list[Sentence] = []
    for block in blocks(text) if "\n" in text else [Block(0, len(text), "")]:
        part = text[block.start : block.end]
        spans = [(0, len(part))] if block.kind == "row" else _prose(part, language)
        sentences += [
            _stripped(text, block.start + start, block.start + end) for start, end in spans if part[start:end].strip()
        ]
    return sentences


def rows_of(text: str) -> dict[int, Sentence | None]:
    """Return the header of each row of a table, if its columns have names, by the offset of the row's sentence.

    A line of a form is a row without a header.
    """
    rows = (block for block in blocks(text) if block.kind)
    return {
        _stripped(text, row.start, row.end).start: _stripped(text, *row.header) if row.header else None for row in rows
    }


def _stripped(text: str, start: int, end: int) -> Sentence:
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    return Sentence(piece.strip(), start, start + len(piece.strip()))


def _prose(text: str, language: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of sentences; a list marker in an open bracket, or the day of a date, ends none."""
    for paragraph in _PARAGRAPH.finditer(text):
        begun: int | None = None
        spans = _boundaries(paragraph[0], language)
        for start, end in spans:
            begun = start if begun is None else begun
            piece, rest = paragraph[0][begun:end], paragraph[0][end:]
            if end < spans[-1][1] and (_OPEN.search(piece) or (_DAY.search(piece) and month_begins(rest))):
                continue
            yield paragraph.start() + begun, paragraph.start() + end
            begun = None


def _boundaries(text: str, language: str) -> list[tuple[int, int]]:
    try:
        sentences = sentencex.get_sentence_boundaries(language, text.translate(_BLANKS))
    except BaseException as error:
        # Rust's panics get past `except Exception`, and the extension does not export their class.
        if type(error).__name__ != "PanicException":
            raise
        return [(0, len(text))]
    return [(sentence["start_index"], sentence["end_index"]) for sentence in sentences]


def overlap(first: Iterable[str], second: Iterable[str]) -> float:
    """Return the F1 of two bags of words, or of letters, in [0, 1]."""
    own, other = Counter(first), Counter(second)
    if not own or not other:
        return float(own == other)
    return 2 * (own & other).total() / (own.total() + other.total())
