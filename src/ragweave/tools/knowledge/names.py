"""Names in texts, found by rule: what a passage is about, and what it mentions.

A name is a span of capitalised words, a quotation, an identifier (`KX-7741-B`, `max_iter`, `OrderedDict`, an
e-mail address, code between backticks) or a clause (`Section 4.2`). In scripts without capitals it is what
is quoted or repeated. A passage is about its title, its headings, the terms that its lines define,
and, as a row of a table, its first value.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from ragweave.state.passages import added_by_model
from ragweave.tools.text.words import UNSPACED_LETTER, unaccented

_WORD = rf"{UNSPACED_LETTER}|(?:(?!{UNSPACED_LETTER})[^\W_])+"
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_TOKEN = re.compile(r"[^\W_]+(?:[.'’\-&][^\W_]+)*\.?|[^\w\s]")
_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\b[A-Z]\.)(?<!\b(?:Dr|Mr|Ms|St)\.)(?<!\b(?:Mrs|Rev)\.)(?<!\b(?:Prof|Capt)\.)[\"”')]*\s+(?=[\"“(']*[^\W_])|(?<=[。！？])[」』”]*|\n[ \t]*(?=\n|[-*+#|>]|\d+\.)"
)
_QUOTED = re.compile(r"[\"“]([^\"“”\n]{2,60})[\"”]|「([^「」\n]{2,40})」|『([^『』\n]{2,40})』|《([^《》\n]{2,40})》")
_CODE = re.compile(r"`([^`\n]{2,60})`")
_ID = re.compile(r"\b[^\W_]+(?:[-_.@/]+[^\W_]+)+\b|\b\w*[a-z][A-Z]\w*|\b[^\W\d_]+\d\w*|\b\w+_\w*|\b_\w+")
_CLAUSE = re.compile(
    r"(?:§{1,2}|\b(?:section|clause|article|chapter|paragraph|annex|appendix|rule|art|sec))\.?\s*(\d+(?:\.\d+)*)",
    re.IGNORECASE,
)
_DEFINED = re.compile(
    r"^[ \t]*(?:[-*+>|#]+[ \t]+)*(?:\*\*([^*\n]{2,60})\*\*|`([^`\n]{2,60})`"
    r"|(?:(?:async|export|public)[ ]+)*(?:class|def|function|func|fn|struct|interface)[ ]+(\w+)"
    r"|(\d+(?:\.\d+)+)\.?[ \t]+(?=[^\W\d_]))",
    re.MULTILINE,
)
_ROW = re.compile(r"[^:\n]{1,60}: ([^\n]{1,60})")
_COLUMN = re.compile(r"^[^:\n]{1,60}: ", re.MULTILINE)
_HEADER = re.compile(r"^(?:From|To|Date|Subject): ", re.MULTILINE)
_BROKEN_HYPHEN = re.compile(r"(?<=\w)- (?=\w)")
_DISAMBIGUATION = re.compile(r"\([^()]*\)\s*$")
_NUMBERED = re.compile(r"\s*(\d+(?=\.\s)|\d+(?:\.\d+)+)\.?\s+(?=[^\W\d_])")
_LINKS = frozenset(
    re.findall(r"\S+", "of the de la le du des van von der den di da del and & for in on to al el bin ibn")
)
"""Words that may stand inside a name."""
_ALONE = """
a an the this that these those he she it they we i you his her its their our my your who whom whose which what when
where why how in on at by for from to of with as and or but if then than so not no is are was were be been being has
have had do does did after before during since while although though because however also both each every most many
some several other another all any one two three four five six seven eight nine ten first second third new early later
there here such more only over under between into through until about following despite according among within without
upon along january february march april may june july august september october november december monday tuesday
wednesday thursday friday saturday sunday mr mrs ms dr
"""
COMMON = frozenset(_ALONE.split())
"""Words that are not names, although a sentence may begin with them in capitals."""
TITLES = frozenset(
    ["mr", "mrs", "ms", "dr", "prof", "professor", "sir", "dame", "lord", "lady", "rev", "reverend", "capt", "captain"]
)
"""Words before a person's name that are not part of it."""
LONGEST = 8
"""Words of the longest name; a letter of a script without spaces is a word."""

_LONGEST_ID = 100
"""Characters of the longest identifier."""


def folded(text: str) -> str:
    """Return the form in which names are compared: lower case, no accents, single blanks between words.

    Examples:
        >>> folded("The Beatles’"), folded("Max_iter"), folded("Søren Bjørnsen"), folded("東京")
        ('beatles', 'max iter', 'soren bjornsen', '東 京')
    """
    if text.isascii():
        words = _ASCII_WORD.findall(re.sub(r"'s\b", "", text.lower()))
    else:
        plain = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
        words = re.findall(_WORD, re.sub(r"['’]s\b", "", unaccented(unicodedata.normalize("NFC", plain).lower())))
    while words and words[0] in ("the", "a", "an"):
        del words[0]
    return " ".join(words)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, short pieces joined."""
    joined: list[str] = []
    for piece in _SENTENCE_END.split(_BROKEN_HYPHEN.sub("-", text)):
        if joined and min(len(piece), len(joined[-1])) < 25:
            joined[-1] = f"{joined[-1]} {piece}"
        elif piece.strip():
            joined.append(piece.strip())
    return joined


def names_in(sentence: str) -> dict[str, str]:
    """Return the names in a sentence, folded, each with its spelling there."""
    names: dict[str, str] = {}
    for span in _capitalised(sentence):
        names.update((folded(name), name) for name in (" ".join(span), *_parts(span)))
    for match in (*_QUOTED.finditer(sentence), *_CODE.finditer(sentence)):
        names.update((folded(text), text) for text in match.groups() if text)
    unusual = (word for word in sentence.split() if not (word.isalpha() and word.islower()))
    for match in chain.from_iterable(map(_ID.finditer, unusual)):
        names.update((folded(text), text) for text in _identifiers(match.group()))
    names.update((f"§ {number}", f"§ {number}") for number in _CLAUSE.findall(sentence))
    names = {person_of(name): spelt for name, spelt in names.items()} | names
    return {name: spelt for name, spelt in names.items() if len(name) > 1 and name not in COMMON}


def person_of(name: str) -> str:
    """Return a folded name without titles before it and initials inside it, if two words are left.

    Examples:
        >>> person_of("dr ann b lee"), person_of("j r r tolkien"), person_of("lady lee")
        ('ann lee', 'j tolkien', 'lady lee')
    """
    words = name.split()
    while len(words) > 2 and words[0] in TITLES:
        del words[0]
    inner = range(1, len(words) - 1)
    return " ".join(word for place, word in enumerate(words) if place not in inner or not re.fullmatch("[a-z]", word))


def subjects(text: str, metadata: Mapping[str, Any]) -> set[str]:
    """Return the names of what a passage is about: title, headings, defined terms, a row's first value."""
    paths = [metadata, *(place for _, place in metadata.get("breaks", ()))]
    headings = [place.get("heading_path") or [] for place in paths]
    heads = [str(metadata.get("title") or ""), *(path[-1] for path in headings if path)]
    names = set(_of_heads(heads))
    for bold, code, symbol, clause in _DEFINED.findall(text):
        names.add(f"§ {clause}" if clause else folded(bold or code or symbol))
    if "line" in metadata and (row := _ROW.match(text)):
        names.add(folded(row[1]))
    names |= {*map(person_of, names)}
    for forms in added_by_model(metadata, "names"):
        alike = {*map(folded, forms)}
        names |= alike if names & alike else set()
    return {name for name in names if len(name) > 1 and name not in COMMON}


def without_keys(text: str, metadata: Mapping[str, Any]) -> str:
    """Return a text without a row's column names, or an e-mail's header names, which all such texts share."""
    return (_COLUMN if "line" in metadata else _HEADER).sub("", text)


def added_sentences(metadata: Mapping[str, Any]) -> list[str]:
    """Return what a model added to a passage: each name with its other forms, in quotes, and the facts."""
    names = (" ".join(f'"{form}"' for form in forms) for forms in added_by_model(metadata, "names"))
    return [*names, *added_by_model(metadata, "facts")]


def names_of(text: str, metadata: Mapping[str, Any]) -> dict[str, bool]:
    """Return the names of a passage, and of each whether the passage is about it."""
    content = without_keys(text, metadata)
    every = [*sentences(content), *added_sentences(metadata)]
    mentioned = {name for sentence in every for name in names_in(sentence)} | repeated(content)
    return dict.fromkeys(mentioned, False) | dict.fromkeys(subjects(text, metadata), True)


def runs(text: str, least: int = 2) -> Iterator[tuple[int, int, str]]:
    """Yield the runs of `least` to `LONGEST` words of a text: number of the first word, number after the last, and the run."""
    words = folded(text).split()
    for start in range(len(words)):
        for end in range(start + least, min(len(words), start + LONGEST) + 1):
            yield start, end, " ".join(words[start:end])


def repeated(text: str) -> set[str]:
    """Return the runs of letters of scripts without spaces that a text has twice, the longest ones."""
    if text.isascii() or not (letters := re.findall(f"(?:{UNSPACED_LETTER})+", text)):
        return set()
    counts = Counter(run for piece in letters for _, _, run in runs(piece))
    twice = {run: count for run, count in counts.items() if count > 1}
    inside = {part for run, count in twice.items() for part in (run[2:], run[:-2]) if twice.get(part) == count}
    return twice.keys() - inside


def _of_heads(heads: Iterable[str]) -> Iterator[str]:
    """Yield the names of titles and headings, without "(film)" and the like."""
    for head in heads:
        if numbered := _NUMBERED.match(head):
            yield f"§ {numbered[1]}"
            head = head[numbered.end() :]
        yield folded(_DISAMBIGUATION.sub("", head)) or folded(head)
        if " " not in head:
            yield folded(head.rpartition(".")[2])


def _identifiers(token: str) -> Iterator[str]:
    """Yield an identifier, and what stands between its dots."""
    if len(token) <= _LONGEST_ID and re.search(
        r"[^\W\d_].*\d|\d.*[^\W\d_]|[a-z][A-Z]|[_@/]|[^\W\d_]{2}\.[^\W\d_]{2}", token
    ):
        yield token
        pieces = token.split(".") if "@" not in token else []
        yield from (piece for piece in pieces if len(piece) > 2 and len(pieces) > 1)


def _capitalised(sentence: str) -> Iterator[list[str]]:
    """Yield spans of capitalised words and numbers, with linking words only inside."""
    span: list[str] = []
    links: list[str] = []
    for place, token in enumerate(_TOKEN.findall(sentence)):
        word = token.rstrip(".")
        if word and (word[0].isupper() or (span and word[0].isdigit())):
            if not span and word.lower() in COMMON and (place == 0 or not word.isupper()):
                continue
            span += [*links, word]
            links = []
            if not token.endswith(".") or len(word) <= 3 or "." in word or word.lower() in TITLES:
                continue  # else a sentence ends, no initial or title
        elif span and word.lower() in _LINKS and len(links) < 2:
            links.append(word)
            continue
        if span:
            yield span
        span, links = [], []
    if span:
        yield span


def _parts(span: list[str]) -> Iterator[str]:
    """Yield the names inside a long name: "Director Ann Lee" has "Ann Lee"."""
    linked = any(word.lower() in _LINKS for word in span)
    for start in range(len(span)):
        for end in range(start + (1 if linked else 2), min(len(span), start + LONGEST - 1) + 1):
            if span[start].lower() not in _LINKS and span[end - 1].lower() not in _LINKS:
                yield " ".join(span[start:end])
