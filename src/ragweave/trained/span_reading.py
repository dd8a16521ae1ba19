"""A span encoder's input: windows of whole sentences.

A window is `[CLS] question [SEP] title : sentence sentence … [SEP]`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ragweave.errors import UsageError


class Cut(NamedTuple):
    """The sentences of one window: those from `start` to `end` (exclusive) are scored in it."""

    start: int
    end: int
    lead: bool
    """Whether the sentence before them is included, unscored, so that pronouns have a referent."""


def cuts(sizes: Sequence[int], room: int) -> Iterator[Cut]:
    """Yield the windows of a passage, in order.

    A window takes sentences while they fit; it is led by the sentence before it where that takes
    less than half the room and leaves room for the first that is scored.

    Args:
        sizes: Tokens of each sentence, at least 1 and at most `room`.
        room: Tokens that a window has for sentences.
    """
    start = 0
    while start < len(sizes):
        before = sizes[start - 1] if start else 0
        lead = 0 < before * 2 < room and before + sizes[start] <= room
        used, end = before if lead else 0, start
        while end < len(sizes) and used + sizes[end] <= room:
            used += sizes[end]
            end += 1
        yield Cut(start, end, lead)
        start = end


NOBODY, ASKED = -1, -2
"""Owners of tokens that belong to no scored sentence, and of the question's."""


FEATURES = 3
"""Numbers a sentence beside its tokens, see `features`."""


_QUESTION, _TITLE, _LEAST = 64, 24, 16


_WORDS = re.compile(r"\w+")


class Text(NamedTuple):
    """A passage in sentences."""

    title: str
    sentences: Sequence[str]


class Sheet(NamedTuple):
    """A question and its passages; their sentences are numbered consecutively, from 0."""

    question: str
    passages: Sequence[Text]


class Window(NamedTuple):
    """One input of the encoder."""

    ids: list[int]
    owners: list[int]
    """The sentence that each token belongs to, or `NOBODY`, or `ASKED`."""
    second: int
    """Index of the token at which title and sentences begin."""


class Read(NamedTuple):
    """A sheet as the encoder reads it."""

    windows: list[Window]
    features: list[list[float]]
    """(sentences, `FEATURES`)."""

    @property
    def length(self) -> int:
        """Tokens of the longest window."""
        return max(len(one.ids) for one in self.windows)


class Reader:
    """Turns texts into windows. Not safe under threads: fast tokenizers keep state."""

    def __init__(self, tokenizer: Any, limit: int) -> None:
        """Take a fast tokenizer and the most tokens of a window.

        Raises:
            UsageError: The limit is below 16, or the tokenizer marks no beginning and end.
        """
        if limit < _LEAST:
            raise UsageError(f"max_input must be at least {_LEAST} for a span-encoder, not {limit}")
        if tokenizer.cls_token_id is None or tokenizer.sep_token_id is None:
            raise UsageError("the base model's tokenizer has no tokens for start and end of a text")
        self.tokenizer, self.limit = tokenizer, limit
        self._question, self._title = min(_QUESTION, limit // 4), min(_TITLE, limit // 10)

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, without marks."""
        if not texts:
            return []
        found = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        return [list(ids) for ids in found]

    def read(self, sheet: Sheet) -> Read:
        """Read a question with its passages; at least one of them has a sentence."""
        windows: list[Window] = []
        numbers: list[list[float]] = []
        question = self.tokens([sheet.question])[0][: self._question]
        for title, sentences in sheet.passages:
            windows += self._windows(question, title, sentences, len(numbers))
            numbers += (features(sheet.question, one, i) for i, one in enumerate(sentences))
        return Read(windows, numbers)

    def _windows(
        self, question: list[int], title: str, sentences: Sequence[str], first: int
    ) -> Iterator[Window]:
        begin, end = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        named = self.tokens([f"{title} :"])[0][-self._title :] if title.strip() else []
        room = self.limit - len(question) - len(named) - 3
        pieces = [ids[:room] or [self._filler()] for ids in self.tokens(sentences)]
        head, front = [begin, *question, end], [NOBODY, *[ASKED] * len(question), NOBODY]
        for cut in cuts([len(one) for one in pieces], room):
            before = pieces[cut.start - 1] if cut.lead else []
            ids = [*head, *named, *before]
            owners = [*front, *[NOBODY] * (len(named) + len(before))]
            for index in range(cut.start, cut.end):
                ids += pieces[index]
                owners += [first + index] * len(pieces[index])
            yield Window([*ids, end], [*owners, NOBODY], len(head))

    def _filler(self) -> int:
        """Return the token that represents a sentence without tokens."""
        known = self.tokenizer.unk_token_id
        return int(self.tokenizer.sep_token_id if known is None else known)


def features(question: str, sentence: str, index: int) -> list[float]:
    """Return word F1 with the question, share of its words found, and 1 / (1 + index)."""
    asked, said = (Counter(_WORDS.findall(one.lower())) for one in (question, sentence))
    common, total = (asked & said).total(), asked.total() + said.total()
    return [2 * common / max(1, total), common / max(1, asked.total()), 1 / (1 + index)]
