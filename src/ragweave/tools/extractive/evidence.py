"""Evidence in the passages: sentences that bear on a question, and the clauses that answer it.

Where no short span answers, a clause of a sentence does. Some answers fill the gap of a question
whose words the sentence repeats: "Which measure suits dialogue?" is answered by the subject of
"LEXICAL suits dialogue", "What does X blend?" by what follows the verb of "X blends …". English
word order, no parser.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ragweave.tools.extractive import minilm
from ragweave.tools.extractive.question import Question, Token, stem, terms, tokens, word_set
from ragweave.tools.models.tasks import TaskPassage
from ragweave.tools.text.sentences import split_sentences

_TITLE = 0.8
"""Weight of a question word that occurs only in the passage's title."""
_LONGEST_PIECE = 600
"""Most characters of a sentence that are read as one: spans are compared with each other."""
_AROUND = 0.35
"""Weight of a question word that stands elsewhere in the passage only."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A sentence of a passage and its support for the question."""

    text: str
    title: str
    passage: int
    """Position of its passage, from 0."""
    position: int
    """Position of the sentence in its passage, from 0."""
    score: float
    """Support in [0, 1]: share of the question it covers, by IDF; mixed with MiniLM's cosine."""


def rank_sentences(
    question: Question, passages: Sequence[TaskPassage], *, use_minilm: bool
) -> list[Evidence]:
    """Return every sentence of `passages`, best support first; ties keep the passages' order.

    Args:
        question: The question, analysed.
        passages: Passages in retrieval order.
        use_minilm: Mix in MiniLM's cosine, half and half.
    """
    rows = [
        (index, position, sentence)
        for index, passage in enumerate(passages)
        for position, sentence in enumerate(_sentences(passage["text"]))
    ]
    bags = [frozenset(terms(sentence)) for _, _, sentence in rows]
    weights = _idf(question.terms, bags)
    titles = [frozenset(terms(passage["title"])) for passage in passages]
    bodies = [frozenset(terms(passage["text"])) for passage in passages]
    scores = [
        _coverage(weights, bag, titles[index], bodies[index])
        for (index, _, _), bag in zip(rows, bags, strict=True)
    ]
    if use_minilm and rows:
        near = minilm.cosines(
            question.text,
            [f"{passages[index]['title']}. {sentence}".lstrip(". ") for index, _, sentence in rows],
        )
        scores = [
            0.5 * score + 0.5 * max(0.0, cosine) for score, cosine in zip(scores, near, strict=True)
        ]
    found = [
        Evidence(sentence, passages[index]["title"], index, position, score)
        for (index, position, sentence), score in zip(rows, scores, strict=True)
    ]
    return sorted(found, key=lambda one: -one.score)


def _idf(wanted: frozenset[str], bags: Sequence[frozenset[str]]) -> dict[str, float]:
    """Return the inverse sentence frequency of each wanted stem (never 0)."""
    count = Counter(term for bag in bags for term in bag & wanted)
    return {term: math.log(1 + (len(bags) + 1) / (count[term] + 0.5)) for term in sorted(wanted)}


def _coverage(
    weights: dict[str, float], bag: frozenset[str], title: frozenset[str], body: frozenset[str]
) -> float:
    """Return the share of the question's weight that a sentence and its surroundings cover."""
    total = math.fsum(weights.values())
    if not total:
        return 0.0

    def share(term: str) -> float:
        if term in bag:
            return 1.0
        return _TITLE if term in title else _AROUND if term in body else 0.0

    # fsum, or in another order of summing all could be more than the total.
    return math.fsum(share(term) * weight for term, weight in weights.items()) / total


@lru_cache(maxsize=4096)
def _sentences(text: str) -> tuple[str, ...]:
    return tuple(
        piece for sentence in split_sentences(text) for piece in _pieces(sentence.text) if piece
    )


def _pieces(sentence: str) -> Iterator[str]:
    """Cut what is too long for a sentence at white space, or in a word longer than that."""
    start = 0
    while len(sentence) - start > _LONGEST_PIECE:
        blank = sentence.rfind(" ", start + _LONGEST_PIECE // 2, start + _LONGEST_PIECE)
        end = start + _LONGEST_PIECE if blank < 0 else blank
        yield sentence[start:end].strip()
        start = end
    yield sentence[start:].strip()


_CLAUSE = re.compile(r"\s*(?:[;:—]|, (?:which|who|where|while|whereas|but|so)\b)\s*")
_PREDICATE = re.compile(
    r"\b(?:is|are|was|were|means|mean|refers to|stands for|consists of|denotes)\b\s+"
)
_REASON = re.compile(r"\b(?:because|due to|in order to|so that|by \w+ing)\b.*")
_CLAUSE_OBJECT = re.compile(r"what (?:does|do|did) .* (?!mean\b|do\b)(\w+)\W*$")
_CLAUSE_TURN = re.compile(r";|—|, (?:which|who|where|while|whereas|but|so)\b")


def answer_clause(question: Question, evidence: Evidence) -> str:
    """Return the part of a sentence that says what the question lacks, or the whole sentence.

    A definition is the predicate behind "X is …", a reason what begins with "because" or the
    like; otherwise what follows the last of the question's words in the clause with most of them.
    """
    text = evidence.text.strip()
    if question.kind == "definition":
        return _definition(question, text)
    done = object_of_verb(question, text)
    if done:
        return done
    parts = [part for part in _CLAUSE.split(text) if part]
    if not parts:
        return text
    best = max(parts, key=lambda part: len(question.terms & set(terms(part))))
    hits = [word for word in tokens(best) if stem(word.text) in question.terms]
    tail = best[hits[-1].end :].strip(" ,") if hits else best
    rest = re.sub(r"^(?:is|are|was|were|as|that|:)\s+", "", tail)
    return (rest if len(terms(rest)) >= 2 else best).strip(_CLOSING)


def object_of_verb(question: Question, text: str) -> str:
    """Answer "What does X do?" by what follows the same verb in `text`; "" for other questions."""
    asked = _CLAUSE_OBJECT.match(question.text.strip().lower())
    if asked is None:
        return ""
    verb = stem(asked[1])
    found = next((word for word in tokens(text) if stem(word.text) == verb), None)
    return _CLAUSE_TURN.split(text[found.end :])[0].strip(_CLOSING) if found else ""


def _definition(question: Question, text: str) -> str:
    """Return the predicate of a defining sentence, or its reason, or the sentence."""
    reason = _REASON.search(text) if re.match(r"(?:why|how)\b", question.text.lower()) else None
    if reason is not None:
        return reason.group().strip(_CLOSING)
    found = _PREDICATE.search(text)
    if found and question.terms & set(terms(text[: found.start()])):
        return text[found.end() :].strip(_CLOSING)
    return text.strip(_CLOSING)


_SENTENCES = 8
"""Best-supported sentences that are looked at."""
_NOUN = 3
"""Most words between "which" and the verb."""
_LONGEST_GAP = 7
"""Most words of a subject that is taken for an answer."""
_SLACK = 2
"""Words that a sentence may have more between verb and object than the question."""

_AUXILIARY = word_set("do does did is are was were has have had can could will would should may")
_WEAK = word_set("also then first only often usually still now the a an this that these those")
_BREAK = word_set(
    ', ; : — ( ) " “ ” . that which who because so while where whereas but and when if'
)
_OBJECT = re.compile(r"^what (?:does|do|did) (.+) (?!mean\b|do\b|say\b|stand for\b)(\w+)$")
_TURN = re.compile(r"[;—]|, (?:which|who|where|while|whereas|but|so|because)\b|\bbecause\b")
_CLOSING = " \t\n.,;:!?"


def fill_gap(question: Question, found: Sequence[Evidence]) -> str:
    """Return the answer that fills the question's gap in one of `found`, or "" for none.

    Args:
        question: The question, analysed.
        found: Sentences, best support first.
    """
    text = " ".join(question.text.replace("’", "'").rstrip("?!. ").split())
    asked = _OBJECT.match(text.lower())
    for one in found[:_SENTENCES]:
        answer = _object(asked, one) if asked else _subject(text, one.text)
        if answer:
            return answer
    return ""


def _object(asked: re.Match[str], evidence: Evidence) -> str:
    """Return what follows the verb where the question's subject precedes it."""
    subject, verb = set(terms(asked[1])), stem(asked[2])
    text = evidence.text
    for word in tokens(text):
        if stem(word.text) != verb:
            continue
        before = tokens(text[: word.start])
        near = {stem(one.text) for one in before[-len(asked[1].split()) - _SLACK :]}
        rest = _TURN.split(text[word.end :])[0].strip(_CLOSING)
        if subject and subject <= near and rest:
            return rest
    return ""


def _subject(question: str, sentence: str) -> str:
    """Return the subject of the verb and object that the question shares with the sentence."""
    words = tokens(sentence)
    for verb, wanted in _predicates(question):
        for at, word in enumerate(words):
            if stem(word.text) == verb and _in_order(words[at + 1 :], wanted):
                subject = _clause_start_words(words[:at])
                if subject:
                    return sentence[subject[0].start : subject[-1].end]
    return ""


def _predicates(question: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the readings of "which NOUN VERB OBJECT" as a verb's stem and its object's stems."""
    words = [word for word in tokens(question) if word.is_word]
    if len(words) < 3 or words[0].text.lower() not in ("which", "what", "who"):
        return
    first = 1 if words[0].text.lower() == "who" else 2
    for at in range(first, min(first + _NOUN, len(words) - 1)):
        verb = words[at].text.lower()
        if verb in _AUXILIARY:
            return
        wanted = [stem(word.text) for word in words[at + 1 :] if not word.is_stop]
        if wanted and not words[at].is_stop:
            yield stem(verb), wanted


def _in_order(after: Sequence[Token], wanted: Sequence[str]) -> bool:
    """Return whether the wanted stems follow in order, with little between them."""
    content = [stem(word.text) for word in after if word.is_word and not word.is_stop]
    window = iter(content[: len(wanted) + _SLACK])
    return all(any(have == one for have in window) for one in wanted)


def _clause_start_words(before: Sequence[Token]) -> list[Token]:
    """Return the words right before a verb, back to where their clause begins."""
    taken: list[Token] = []
    for word in reversed(before):
        if word.text.lower() in _BREAK:
            break
        taken.insert(0, word)
    while taken and taken[0].text.lower() in _WEAK:
        taken.pop(0)
    while taken and taken[-1].text.lower() in _WEAK | _AUXILIARY:
        taken.pop()
    plain = taken and not all(word.is_stop for word in taken)
    return taken if plain and len(taken) <= _LONGEST_GAP else []
