"""Which passages are gold: by id, else by text, since a knowledge base may name and cut its own.

A data set's gold passages carry ids of its own; a knowledge base knows the same texts by row ids, or
cut into pieces of 100 words. Where ids differ, texts decide.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

from langchain_core.documents import Document

from ragweave.evaluation.metrics.squad import squad_normalize

SHORTEST_RUN = 8
"""Words in a row that two different cuts of a text must share at least."""

_LONGEST_TITLE = 12

By = Literal["id", "text"]


class GoldPassages:
    """The gold passages of a question, and which found passages are one of them."""

    def __init__(self, gold: Sequence[Document], seen: Iterable[Document] = ()) -> None:
        """Take the gold passages, and passages as they were found, before any filter cut them.

        What is matched once is known by its id from then on, also where a filter left a few words.
        """
        self._gold = [(doc.id or "", doc) for doc in gold]
        self._known: dict[str, str] = {}
        self.ids = {key for key, _ in self._gold}
        for doc in seen:
            self.match(doc)

    def match(self, found: Document) -> tuple[str, By] | None:
        """Return the id of the gold passage that `found` is or holds, and how that is known.

        By text: all words of the shorter one stand in a row in the longer one; or, where cuts
        overlap, at least half of them do and no titles speak against it.
        """
        own = found.id or ""
        if own in self.ids:
            return own, "id"
        if own in self._known:
            return self._known[own], "text"
        for key, doc in self._gold:
            if _same_text(found, doc):
                if own:
                    self._known[own] = key
                return key, "text"
        return None

    def names(self, found: Iterable[Document], *, once: bool = False) -> list[str]:
        """Return each passage's id; of one that is gold, the gold passage's.

        Args:
            found: Passages; several may be cuts of one gold passage.
            once: Whether only the first of them bears its name.
        """
        named: list[str] = []
        for doc in found:
            match = self.match(doc)
            own = doc.id or ""
            taken = once and match is not None and match[0] in named
            named.append(own if match is None or taken else match[0])
        return named

    def precision(self, found: Iterable[Document]) -> float:
        """Return the share of the passages that are gold or a cut of it, 0 to 1; none found: 0."""
        right = {doc.id: self.match(doc) is not None for doc in found}
        return sum(right.values()) / len(right) if right else 0.0

    def mark(self, found: Iterable[Document]) -> list[Document]:
        """Return copies with `metadata["gold"]`."""
        return [
            doc.model_copy(
                update={"metadata": {**doc.metadata, "gold": self.match(doc) is not None}}
            )
            for doc in found
        ]

    def counts(self, found: Iterable[Document]) -> dict[str, int]:
        """Return how many gold passages there are, and how many were found by id and by text."""
        by: dict[str, By] = {}
        for doc in found:
            match = self.match(doc)
            if match is not None and by.get(match[0]) != "id":
                by[match[0]] = match[1]
        ways = list(by.values())
        return {"known": len(self.ids), "id": ways.count("id"), "text": ways.count("text")}


def _same_text(found: Document, gold: Document) -> bool:
    shown, wanted = _words(found.page_content), _words(gold.page_content)
    shorter, longer = sorted((shown, wanted), key=len)
    if not shorter:
        return False
    if shorter == longer:
        return True
    least = max(len(shorter) / 2, SHORTEST_RUN)
    if len(shorter) < SHORTEST_RUN or len(set(shorter) & set(longer)) * 2 < len(set(shorter)):
        return False
    run = _longest_run(shorter, longer)
    return run == len(shorter) or (run >= least and _titles_agree(found, gold))


def _titles_agree(one: Document, other: Document) -> bool:
    titles = [_words(str(doc.metadata.get("title") or "")) for doc in (one, other)]
    if not all(titles) or max(map(len, titles)) > _LONGEST_TITLE:
        return True
    return titles[0] == titles[1]


def _longest_run(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    return difflib.SequenceMatcher(None, one, other, autojunk=False).find_longest_match().size


@lru_cache(maxsize=4096)
def _words(text: str) -> tuple[str, ...]:
    return tuple(squad_normalize(text).split())
