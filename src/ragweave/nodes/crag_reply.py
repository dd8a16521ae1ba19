"""Reading CRAG's replies: the grade of a passage, and the query of the second search."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, get_args

from ragweave.nodes.negation import ENDS_CLAUSE, NEGATES_NOTHING, SENTENCE, is_negated
from ragweave.nodes.replies import bare_text
from ragweave.nodes.reply_lists import items_of
from ragweave.tools.text.reply import Examples, PromptParts, is_echo
from ragweave.tools.text.unknown import is_unknown
from ragweave.tools.text.untrusted import one_line

Grade = Literal["Correct", "Ambiguous", "Incorrect"]
"""What a passage is to a question, and what a retrieval is (section 4.3)."""

EXAMPLES = Examples(
    questions=(
        "On which river is the port of Verra?",
        "What did the author of The Salt Road study?",
    ),
    queries=("Verra, port, river", "The Salt Road author, studies"),
)
"""What the examples of the prompt `keywords` say: a reply may copy them."""


_WORDS = re.compile(
    r"\b(?P<part_of_it>(?:not|\w+n't|cannot)\b (?:quite|fully|completely|entirely)\b)"
    r"|\b(?P<no>(?:not|\w+n't|cannot|no)\b[^.\n]{0,30}?\b(?:correct|relevant|answer|help)\w*)"
    r"|\b(?P<wrong>incorrect|irrelevant|unrelated|wrong|no)\b"
    r"|\b(?P<part>ambiguous|partial(?:ly)?|partly|unclear|uncertain|unsure"
    r"|(?:somewhat|(?<!the )only|loosely|tangentially|indirectly) (?:relevant|related))\b"
    r"|\b(?P<right>correct|relevant|right|yes)\b",
    re.IGNORECASE,
)
_GRADE = re.compile(
    r"(?<!partly )(?<!partially )\b(?P<said>correct|ambiguous|incorrect)\b" + ENDS_CLAUSE,
    re.IGNORECASE,
)
_OF_SOMETHING_ELSE = re.compile(
    r"\b(?:(?:whether|if)\b|that (?!(?:it|this)\b|(?:the|this) (?:passage|text|document)\b))[^,]*\Z",
    re.IGNORECASE,
)
"""What a sentence says before a word that grades no passage: "shows that the premise is"."""
_TELLS = (
    r"(?:mentions?|says?|states?|answers?|names?|gives?|contains?|provides?|specif(?:y|ies)|address(?:es)?"
    r"|tells?|explains?|identif(?:y|ies)|confirms?)"
)
_IT = r"(?:(?:it|this|that|(?:the|this) (?:passage|text|document)) )?"
_LACKING = rf"(?:(?:does|do|did)(?: not|n't)|cannot|can't)(?: \w+ly)? {_TELLS}\b|lacks\b"
_LIMITS = re.compile(
    rf"\b(?:but|however|although|though|yet),? {_IT}(?:{_LACKING}|only (?:partly|partially|indirectly)\b)",
    re.IGNORECASE,
)
"""How a reply takes a part of its praise back: "relevant, but it does not answer"."""
_CONCEDES = re.compile(
    rf"\W*(?:although|though|while|even though) {_IT}(?:{_LACKING})[^,.\n]*, ?", re.IGNORECASE
)
"""The same before the praise."""
_GRADES: Mapping[str, Grade] = {
    "part_of_it": "Ambiguous",
    "no": "Incorrect",
    "wrong": "Incorrect",
    "part": "Ambiguous",
    "right": "Correct",
}
_QUERY = re.compile(
    r"^\W*(?:here(?: is|'s| are) (?:a |an |the |your |my |some )?(?:\w+ )?)?(?:search )?"
    r"(?:query|keywords)\W*:",
    re.IGNORECASE,
)
_FIRST_ITEM = re.compile(r"(?:1[.)]|[-•*])[ \t]")
_LOOKED_AT = 400
"""Characters of a reply in which a grade is looked for."""


def parse_grade(reply: str) -> Grade | None:
    """Return the grade that a reply says; None where it says none, or repeats all three.

    Where one of the three words ends a clause on the passage and nothing negates it, it decides;
    else the first word or phrase that means one of them. A passage that is called relevant, and
    yet lacks something, is Ambiguous.
    """
    text = bare_text(reply)[:_LOOKED_AT].replace("’", "'")
    if all(one.lower() in text.lower() for one in get_args(Grade)):
        return None
    said = {
        one["said"].capitalize()
        for one in _GRADE.finditer(text)
        if _grades_the_passage(text, one.start()) and not is_negated(text, one.start())
    }
    if len(said) == 1:
        return next(one for one in get_args(Grade) if one in said)
    concedes = _CONCEDES.match(text)
    found = _WORDS.search(NEGATES_NOTHING.sub("", text[concedes.end() if concedes else 0 :]))
    grade = _GRADES[found.lastgroup or ""] if found else None
    limits = _LIMITS.search(text)
    limited = limits is not None and "answers the question" not in text[: limits.start()].lower()
    limited = limited or concedes is not None
    return "Ambiguous" if grade == "Correct" and limited else grade


def _grades_the_passage(text: str, start: int) -> bool:
    *_, sentence = SENTENCE.split(text[:start])
    return _OF_SOMETHING_ELSE.search(sentence) is None


def parse_keywords(reply: str, question: str, examples: Examples = EXAMPLES) -> str:
    """Return the query that a reply writes; "" where it has none, or an echo of the prompt.

    A line that only announces it is passed over; the items of a list are one query.

    Args:
        reply: The model's reply, of any text.
        question: The question.
        examples: What the prompt's examples say.
    """
    lines = [one.strip() for one in bare_text(reply)[:_LOOKED_AT].splitlines()]
    lines = [one for one in lines if re.search(r"\w", one) and not one.rstrip("*_ ").endswith(":")]
    items = items_of(lines) if lines and _FIRST_ITEM.match(lines[0]) else lines[:1]
    bare = (_QUERY.sub("", one_line(one)).strip(" \"'`*_.“”") for one in items)
    query = ", ".join(one for one in bare if one).strip("[]() ")
    parts = PromptParts(question, examples)
    return "" if is_unknown(query) or is_echo(query, parts) else query
