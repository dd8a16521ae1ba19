"""Reading a restated question off a model's reply: a question, or nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice, takewhile

from ragweave.nodes.replies import bare_text
from ragweave.tools.text.normalize import words
from ragweave.tools.text.unknown import is_unknown
from ragweave.tools.text.words import STOP_WORDS

EXAMPLE = "Lake Orrin"
"""What the example of the prompt that asks for it is about."""
LONGEST_TURN = 1_500
"""Characters of a message that count as history, and that a restatement may add to a question."""
_MARK = re.compile(r"^([*_]{1,3})(?=[^\s*_])(.+)(?<=[^\s*_])\1$")
_LABEL = re.compile(
    r"^[\s*_#>]*(?:sure\W{1,3})?(?:here(?: is|['’]s) )?(?:(?:the|my|your) )?"
    r"(?:user|rewritten|(?:last |re(?:written|stated) |stand-?alone )*question)"
    r"[\s*_]*[:：][\s*_]*",
    re.IGNORECASE,
)
_TURN = re.compile(
    r"[\s*_#>]*(?:user|assistant|conversation|(?:last )?question|rewritten)[*_]*[:：]",
    re.IGNORECASE,
)
"""How the prompt begins another turn: models that run on write one."""
_COLONS = (":", "：")
_QUOTES = "\"'“”` "


def read_restated(text: str, question: str, said: Sequence[str] = ()) -> str:
    """Return the question that a reply restates; empty where it is none.

    The first line that does not only announce another counts, without its label, emphasis and
    quotes; with it as many lines as the follow-up has. What small models write instead: an answer
    (no question mark, where the question has one; none of its words, where it hasn't), a refusal,
    an earlier question again, the prompt's example, a page of text.

    Args:
        text: The reply.
        question: The question as it was asked.
        said: What was said before, in order.
    """
    first = _said_again(bare_text(text), [line for line in question.splitlines() if line.strip()])
    if not first or len(first) > len(question) + LONGEST_TURN:
        return ""
    elsewhere = first != question and (
        first in said or (EXAMPLE in first and not any(EXAMPLE in one for one in said))
    )
    if elsewhere or is_unknown(first) or not _still_asks(first, question):
        return ""
    return first


def _said_again(text: str, asked: Sequence[str]) -> str:
    """Return the first line that says something, bare, and the next ones, as many as were asked.

    "Here is the rewritten question:" says nothing; a line that ends so is the follow-up's own where
    its first line does, too. The next lines end where another turn begins.
    """
    lines = text.splitlines()
    opens = len(asked) > 1 and asked[0].rstrip().endswith(_COLONS)
    for place, line in enumerate(lines):
        plain = _LABEL.sub("", _unmarked(line))
        plain = _unmarked(plain).strip(_QUOTES)
        said = plain.rstrip("*_ ")
        if said and (opens or not said.endswith(_COLONS)):
            more = takewhile(
                lambda one: not _TURN.match(one), filter(str.strip, lines[place + 1 :])
            )
            rest = [one.rstrip() for one in islice(more, max(len(asked) - 1, 0))]
            return "\n".join([plain, *rest]).rstrip(_QUOTES)
    return ""


def _unmarked(line: str) -> str:
    """Return a line without the emphasis that holds all of it."""
    return _MARK.sub(r"\2", line.strip())


def _asks(text: str) -> bool:
    """Say whether a text has a question mark, in its own script or another: models choose theirs.

    The Greek one looks and, once normalised, is written like a semicolon: it counts at the end.
    """
    return any(mark in text for mark in "?\uff1f\u061f\u037e") or text.rstrip().endswith(";")


def _still_asks(line: str, question: str) -> bool:
    """Say whether a line asks what a follow-up asks, as far as its form shows."""
    if _asks(line):  # what follows a question's mark and ends in a full stop is its answer
        return not line.endswith(".") or question.endswith(".")
    return not _asks(question) and (line == question or _asks_unmarked(line, question))


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


_ASKING = word_set(
    "who whom whose which what when where why how"
    " wer wen wem wessen wann wo warum wieso weshalb wie welche welcher welches welchem welchen"
    " qui quoi quand où pourquoi comment quel quelle quels quelles combien"
    " quién quiénes qué cuándo dónde cómo cuál cuáles cuánto cuánta cuántos cuántas"
    " chi cosa quando dove perché quale quali quanto quanti quem onde qual quais"
    " hvem hva hvad hvor hvornår hvorfor hvordan hvilken vem vad när varför hur vilken"
    " кто что когда где почему как какой какая какое какие каком сколько чей"
)
_VERBS = word_set(
    "is are was were do does did has have had can could will would should may might must"
)
_OPENING = word_set(
    "and but or so then also ok okay well please now yes no und aber et mais y pero e ma och og και и"
)
"""What a follow-up begins with before it asks."""
_PRONOUNS = (
    STOP_WORDS
    | set("它他她这那其您你请的了吗呢")
    | word_set(
        "sein seine seinen seiner ihr ihre ihren ihrer der das den dem ein eine er sie es"
        " sa son ses leur leurs le la les un une il elle su sus el los las él ella"
        " suo sua suoi sue lo gli lui lei seu seus ele ela hans hennes hendes han hun hon"
        " его её их он она они"
    )
)
"""Words that a restatement may leave out or replace."""
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_FEW = 4
"""Words that a restatement has at least where only its first one is the follow-up's."""


def _asks_unmarked(line: str, question: str) -> bool:
    """Say whether a line keeps what makes a follow-up a question, where neither has its mark.

    It begins as the follow-up does ("tell me"), asks by its form ("in what year was …"), or has every word of it that says something ("and his wife")
    and states nothing about them. An answer ("Bram Stoker") and a refusal do neither.
    """
    asked, said = _words(question), _words(line)
    if not asked or not said or (_ASKING & set(asked) and not _ASKING & set(said)):
        return False
    if _opens_question(said) or _opens_question(asked):
        return _opens_question(said)
    telling = set(asked) - _PRONOUNS
    if said[0] == asked[0] and said[0] not in STOP_WORDS and not _UNSPACED.search(said[0]):
        return len(said) >= min(_FEW, len(asked))
    return bool(telling) and telling <= set(said) and not _VERBS & set(said) - set(asked)


def _words(text: str) -> list[str]:
    """Return the words of a question behind its "and"; the signs of scripts that put no spaces."""
    found = [
        piece for word in words(text) for piece in (word if _UNSPACED.search(word) else (word,))
    ]
    while found and found[0] in _OPENING:
        del found[0]
    return found


def _opens_question(found: Sequence[str]) -> bool:
    """Say whether words begin as an English question does: "who", "did", "in which"."""
    return found[0] in _ASKING | _VERBS or (
        found[0] in STOP_WORDS and len(found) > 1 and found[1] in _ASKING
    )
