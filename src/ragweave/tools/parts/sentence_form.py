"""What a filter of sentences reads: the question, and the sentence marked within its passage.

The second text is `title | …left context [ sentence ] right context…`. The context is trimmed
evenly around the sentence until both texts fit into the model; the sentence itself is never cut.
Training and use share this form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ragweave.tools.filters.spans import Span
from ragweave.tools.tasks import TaskPassage

TokenSpans = Callable[[str], Sequence[tuple[int, int]]]
"""Gives the character offsets of a text's tokens, in order."""

OPEN, CLOSE = "[ ", " ]"
"""Marks around the sentence; brackets in question, title and passage become round ones."""

_CUT = "…"
_ROUND = str.maketrans("[]", "()")
_QUESTION_SHARE = 3
"""A question may take a third of what the model reads …"""
_TITLE_SHARE = 8
"""… and a title an eighth."""
_LONGEST = 16
"""Characters a token: context further away could not fit, and is not even tokenised."""


class SentenceForm:
    """Makes the pairs of texts that a filter reads."""

    def __init__(self, tokens: TokenSpans, limit: int) -> None:
        """Set how texts are measured.

        Args:
            tokens: The model's tokenizer, without special tokens.
            limit: Most tokens of the two texts together, special tokens not counted.
        """
        self._tokens, self._limit = tokens, limit

    def pair(self, question: str, title: str, text: str, start: int, end: int) -> tuple[str, str]:
        """Return the question and the sentence `text[start:end]` in its passage.

        The pair fits into the limit unless question and sentence alone do not: then it is the
        sentence without any context.
        """
        asked = self._head(_plain(question), self._limit // _QUESTION_SHARE)
        named = self._head(_plain(title), self._limit // _TITLE_SHARE)
        room = self._limit - self._count(asked)
        marked = f"{OPEN}{_plain(text[start:end])}{CLOSE}"
        reach = self._limit * _LONGEST
        left = _plain(text[max(0, start - reach) : start])
        right = _plain(text[end : end + reach])
        for front in (f"{named} | ", "") if named else ("",):
            free = room - self._count(f"{front}{marked}")
            if free >= 0:
                return asked, self._around(front, marked, left, right, room)
        return asked, marked

    def pairs(
        self, question: str, passages: Iterable[TaskPassage], spans: Iterable[Span]
    ) -> list[tuple[str, str]]:
        """Return a pair for each span, in order; each span's passage must be among `passages`."""
        known = {one["id"]: one for one in passages}
        made = []
        for span in spans:
            passage = known[span["passage_id"]]
            made.append(
                self.pair(question, passage["title"], passage["text"], span["start"], span["end"])
            )
        return made

    def _around(self, front: str, marked: str, left: str, right: str, room: int) -> str:
        """Return the sentence with as much context as fits, as much left of it as right of it."""
        free = room - self._count(f"{front}{marked}")
        while free > 0:
            made = self._joined(front, marked, left, right, free)
            over = self._count(made) - room
            if over <= 0:
                return made
            free -= over
        return f"{front}{marked}"

    def _joined(self, front: str, marked: str, left: str, right: str, free: int) -> str:
        before, after = self._tokens(left), self._tokens(right)
        share = free // 2
        takes_left = min(len(before), max(share, free - len(after)))
        takes_right = min(len(after), free - takes_left)
        return f"{front}{_tail(left, before, takes_left)}{marked}{_lead(right, after, takes_right)}"

    def _head(self, text: str, most: int) -> str:
        """Return the beginning of a text, `most` tokens of it."""
        spans = self._tokens(text)
        return text if len(spans) <= most else text[: spans[most][0]].rstrip()

    def _count(self, text: str) -> int:
        return len(self._tokens(text))


def _plain(text: str) -> str:
    """Fold white space and take away what could pass for a mark."""
    return " ".join(text.translate(_ROUND).split())


def _tail(text: str, spans: Sequence[tuple[int, int]], take: int) -> str:
    """Return the last tokens of the left context, from the first whole word on."""
    if take >= len(spans):
        return f"{text} " if text else ""
    start = spans[len(spans) - take][0] if take else len(text)
    if text[start - 1 : start].strip() and " " in text[start:]:
        start = text.index(" ", start) + 1
    return f"{_CUT}{text[start:]} "


def _lead(text: str, spans: Sequence[tuple[int, int]], take: int) -> str:
    """Return the first tokens of the right context, up to the last whole word."""
    if take >= len(spans):
        return f" {text}" if text else ""
    end = spans[take][0]
    if text[end - 1 : end].strip() and " " in text[:end]:
        end = text.rindex(" ", 0, end)
    return f" {text[:end].rstrip()}{_CUT}"
