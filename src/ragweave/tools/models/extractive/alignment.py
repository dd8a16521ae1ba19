"""Answers that stand in the gap of a question: the sentence says the same, with the answer in it.

"Which measure suits dialogue?" is answered by the subject of "LEXICAL suits dialogue", "What does
X blend?" by what follows the verb of "X blends …". English word order, no parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ragweave.tools.models.extractive.evidence import Evidence
from ragweave.tools.models.extractive.question import Question
from ragweave.tools.models.extractive.words import Token, stem, terms, tokens, word_set

_SENTENCES = 8
"""Best-supported sentences that are looked at."""
_NOUN = 3
"""Most words between "which" and the verb."""
_LONGEST = 7
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


def aligned(question: Question, found: Sequence[Evidence]) -> str:
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
    """Return what follows the verb where the question's subject stands before it."""
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
            if stem(word.text) == verb and _follows(words[at + 1 :], wanted):
                subject = _back_to_break(words[:at])
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


def _follows(after: Sequence[Token], wanted: Sequence[str]) -> bool:
    """Say whether the wanted stems follow in order, with little between them."""
    content = [stem(word.text) for word in after if word.is_word and not word.is_stop]
    window = iter(content[: len(wanted) + _SLACK])
    return all(any(have == one for have in window) for one in wanted)


def _back_to_break(before: Sequence[Token]) -> list[Token]:
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
    return taken if plain and len(taken) <= _LONGEST else []
