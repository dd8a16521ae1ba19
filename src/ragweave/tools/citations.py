"""Citations: the sentences of the passages that support an answer, found without a model.

A claim is a sentence of a long answer, or any other answer as a whole. Its words, weighted by their
rarity in the passages, are matched with the sentences of the passages; numbers, dates and amounts are
compared by value. Sentences are quoted, best
first, as long as each covers words that the earlier ones did not. If several cover the same words, the
one that shares more with the question wins, counting the passage's title. Every quote is a verbatim
span of its passage; the row of a table stands after its header; a claim whose words are not found has no quotes.
Agreement with human annotations is in `benchmarks/results/citations.json`.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from langchain_core.documents import Document

from ragweave.state import UNKNOWN, AnswerType, Citation, Quote
from ragweave.state.passages import heading_of, place_at
from ragweave.tools.text.numbers import CURRENCIES, comparable
from ragweave.tools.text.words import Sentence, normalize_answer, rows_of, split_sentences, terms

_SUPPORT = 0.6
"""Least share of a claim's weighted words that its quotes hold together; tuned, as the next two, on half of the data."""
_GAIN = 0.1
"""Least share that each further quote adds."""
_QUESTION = 0.3
"""Weight of a sentence's overlap with the question; its overlap with the answer has weight 1."""
_MAX_QUOTES = 3
"""Maximum number of quotes of a claim (as in ALCE), headers of tables not counted."""


CODE = r"```[\s\S]*?(?:```|\Z)"
"""A block of code in Markdown; a reply may be cut off before its end."""
_CODE = re.compile(CODE)
_MARKS = re.compile(
    rf"{CODE}|`[^`\n]*`"
    r"|(?P<before>(?<!\w)\w{0,40}|)(?P<marks>(?:[ \t]?(?:\[\^?[1-9]\d{0,2}(?:[ ,;–-]{1,2}\^?\d{1,3}){0,9}\](?!\()"
    r"|[\[(](?:passages?|sources?|documents?) \d{1,3}(?:(?:, ?| and )\d{1,3}){0,9}[\])]|【\d[^】\n]{0,80}】))+)"
    r"(?P<ends>(?=[ \t]*(?:[.,!?。，、！？\n]|\Z)))?",
    re.I,
)
"""Code; or a word, the marks of sources after it, and whether a clause ends there."""


class _Line(NamedTuple):
    """A sentence of a passage, with its words."""

    doc: Document
    sentence: Sentence
    words: frozenset[str]
    around: frozenset[str]
    """Its words, those of the passage's title, and of its table's header."""
    header: Sentence | None
    """If it is the row of a table with names of columns."""


def cite(question: str, answer: str, passages: Sequence[Document], answer_type: AnswerType = "short") -> list[Citation]:
    """Return a citation for each claim of an answer; one without quotes is not supported.

    Args:
        question: The question.
        answer: The answer; `Unknown` has no citations.
        passages: The passages that may support it, with ids.
        answer_type: A long answer is cited sentence by sentence, without its code, any other as one claim.
    """
    if answer == UNKNOWN:
        return []
    lines = [line for doc in passages for line in _lines(doc)]
    weights = _Weights(lines)
    asked = _words(question)
    near = [(line, _QUESTION * weights.share(line.around, asked)) for line in lines]
    near.sort(key=lambda pair: -pair[1])
    silent = frozenset() if any(CURRENCIES & line.words for line in lines) else CURRENCIES
    by_words: dict[frozenset[str], list[Quote]] = {}
    citations: list[Citation] = []
    for claim in _claims(answer, answer_type):
        wanted = _wanted(claim.text, asked)
        wanted = wanted - silent or wanted
        if wanted not in by_words:
            by_words[wanted] = _quotes(wanted, near, weights)
        quotes = [quote.copy() for quote in by_words[wanted]]
        citations.append({"text": claim.text, "start": claim.start, "end": claim.end, "quotes": quotes})
    return citations


def without_marks(answer: str, seen: str = "", shown: int = 0, *, anywhere: bool = False) -> str:
    """Return an answer without the marks of sources that a model wrote itself: `[1]`, `(passage 2)`, `【1†source】`.

    Marks within code stay, and those that stand so, after the same word, in `seen`, the text of the passages. A number
    above that of the passages `shown` is no mark, and neither is one right after a word (`items[1]`) that ends no clause,
    unless marks may stand `anywhere`.
    """

    def word(match: re.Match[str]) -> str:
        before, marks = match["before"], match["marks"]
        if marks is None or match[0] in seen:
            return match[0]
        is_index = re.match(r"\[\d", marks) and before.isascii() and not before.isdecimal() and match["ends"] is None
        is_high = shown and marks.lstrip()[0] == "[" and max(map(int, re.findall(r"\d+", marks))) > shown
        return match[0] if is_high or (before and is_index and not anywhere) else before

    return _MARKS.sub(word, answer).strip() or answer


def _claims(answer: str, answer_type: AnswerType) -> list[Sentence]:
    if answer_type == "long":
        return split_sentences(_CODE.sub(lambda code: "\n" * len(code[0]), answer))
    text = answer.strip()
    start = answer.find(text)
    return [Sentence(text, start, start + len(text))] if text else []


def _lines(doc: Document) -> Iterable[_Line]:
    title = _words(str(doc.metadata.get("title") or ""))
    headers = rows_of(doc.page_content)
    for sentence in split_sentences(doc.page_content):
        words, header = _words(sentence.text), headers.get(sentence.start)
        yield _Line(doc, sentence, words, words | title | _words(header.text if header else ""), header)


def _words(text: str) -> frozenset[str]:
    return frozenset(terms(comparable(text)))


class _Weights(dict[str, float]):
    """The weight of each word; a word in no sentence weighs most."""

    def __init__(self, lines: Sequence[_Line]) -> None:
        counts = Counter(word for line in lines for word in line.around)
        super().__init__({word: math.log(1 + len(lines) / n) for word, n in counts.items()})
        self._absent = math.log(1 + 2 * max(len(lines), 1))

    def __missing__(self, word: str) -> float:
        return self._absent

    def of(self, words: Collection[str]) -> float:
        return math.fsum(self[word] for word in words)  # the same in any order: sets have none

    def share(self, words: Collection[str], of: frozenset[str]) -> float:
        """Return the share of a set's weight that `words` hold; 0 for an empty set."""
        total = self.of(of)
        return self.of(of.intersection(words)) / total if total else 0.0


def _quotes(wanted: frozenset[str], near: Iterable[tuple[_Line, float]], weights: _Weights) -> list[Quote]:
    """Return the quotes that hold the wanted words; `near` has the lines nearest to the question first."""
    hits: dict[tuple[frozenset[str], frozenset[str]], tuple[_Line, float]] = {}
    for line, asked in near:  # however many there are, few hold different words
        if not wanted.isdisjoint(line.words):
            hits.setdefault((wanted & line.words, wanted & line.around), (line, asked))
    total = weights.of(wanted)
    chosen: list[Quote] = []
    covered: frozenset[str] = frozenset()
    for _ in range(_MAX_QUOTES):
        least = _GAIN * total if chosen else 0.0
        best = max(
            (hit for hit in hits.items() if weights.of(hit[0][0] - covered) > least),
            key=lambda hit: weights.of(covered | hit[0][1]) / total + hit[1][1],
            default=None,
        )
        if best is None:
            break
        (_, around), (line, _) = best
        score = round(weights.of(around) / total, 4)
        chosen += [_quote(line.doc, sentence, score) for sentence in filter(None, [line.header, line.sentence])]
        covered |= around
    if not chosen or weights.of(covered) / total < _SUPPORT:
        return []
    return list({(quote["passage"], quote["start"]): quote for quote in chosen}.values())


def _quote(doc: Document, sentence: Sentence, score: float) -> Quote:
    place = place_at(doc, sentence.start)
    return {
        "passage": doc.id or "",
        "start": sentence.start,
        "end": sentence.end,
        "text": sentence.text,
        "score": score,
        "file": str(doc.metadata.get("source") or ""),
        "page": place.get("page"),
        "heading": heading_of({**place, "title": doc.metadata.get("title")}),
    }


def _wanted(claim: str, asked: frozenset[str]) -> frozenset[str]:
    """Return the words to look for: a claim's own, or the question's for Yes and No."""
    if normalize_answer(claim) in ("yes", "no"):
        return asked
    return _words(claim) or frozenset(normalize_answer(claim).split())
