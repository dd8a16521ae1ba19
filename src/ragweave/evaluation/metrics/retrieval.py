"""How well passages were found and filtered, against the gold passages.

Source: BlendFilter (Wang et al. 2024), section 4.4 (precision, recall, S-Precision); Järvelin &
Kekäläinen 2002 (nDCG). Passages are identified by their ids; ranked lists come best first.

A data set's gold passages have ids of their own; a knowledge base has the same texts under other
ids, or cut into pieces of 100 words (`id#0`, `id#1`, …). Where ids differ, texts decide which
passages are gold; within a collection whose judgements name ids, such as BEIR's, ids alone do.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from langchain_core.documents import Document

from ragweave.datasets.question import COLLECTION, STUB, Question
from ragweave.evaluation.metrics.answers import contains, squad_normalize
from ragweave.evaluation.metrics.metric import Compute, Metric
from ragweave.state.passages import source_id, told_apart

SHORTEST_RUN = 8
"""Words in a row that two different cuts of a text must share at least."""

_LONGEST_TITLE = 12
_PIECE = re.compile(r"#\d+\Z")
"""What a knowledge base puts behind the id of a document that it cuts."""

By = Literal["id", "text"]


class GoldPassages:
    """The gold passages of a question, and which found passages are one of them."""

    def __init__(self, gold: Sequence[Document], seen: Iterable[Document] = ()) -> None:
        """Take the gold passages, and passages as they were found, before any filter cut them.

        What is matched once is known by its id from then on, also where a filter left a few words.
        """
        self._gold = [(doc.id or "", doc) for doc in gold]
        self._known: dict[str, tuple[str, By]] = {}
        self.ids = {key for key, _ in self._gold}
        for doc in seen:
            self.match(doc)

    def match(self, found: Document) -> tuple[str, By] | None:
        """Return the id of the gold passage that `found` is or holds, and how that is known.

        By id: also as a piece of it, `id#1`, whose words stand in it; a document may be called
        `id#1` itself. By text: all words of the shorter one stand in a row in the longer one; or,
        where cuts overlap, at least half of them do and no titles speak against it.
        """
        own = found.id or ""
        for name in (own, source_id(own)):
            if name in self.ids:
                return name, "id"
        if own in self._known:
            return self._known[own]
        match = self._piece_of(found) or self._alike(found)
        if match is not None and own:
            self._known[own] = match
        return match

    def _piece_of(self, found: Document) -> tuple[str, By] | None:
        """Return the gold passage of which `found` is a piece, by its id; it may be a few words."""
        whole = _PIECE.sub("", source_id(found.id or ""))
        if whole in self.ids:
            held = next(doc for key, doc in self._gold if key == whole)
            if held.metadata.get(STUB) or _stands_in(found.page_content, held.page_content):
                return whole, "id"
        return None

    def _alike(self, found: Document) -> tuple[str, By] | None:
        for key, doc in self._gold:
            if not _of_one_collection(found, doc) and _same_text(found, doc):
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


def _of_one_collection(one: Document, other: Document) -> bool:
    named = one.metadata.get(COLLECTION)
    return named is not None and named == other.metadata.get(COLLECTION)


def _stands_in(part: str, text: str) -> bool:
    """Say whether a piece was cut from a text, which may be within a word: space alone may differ."""
    letters = "".join(part.split())
    return bool(letters) and letters in "".join(text.split())


def _same_text(found: Document, gold: Document) -> bool:
    shared = _shared(found.page_content, gold.page_content)
    cut = COLLECTION not in gold.metadata  # a collection's own document is whole: a piece is in it
    return shared == "all" or (cut and shared == "half" and _titles_agree(found, gold))


@lru_cache(maxsize=2**16)
def _shared(one: str, other: str) -> Literal["all", "half", "less"]:
    """Tell how much of the shorter text stands in a row in the other: every metric asks it anew."""
    shorter, longer = sorted((_words(one), _words(other)), key=len)
    if not shorter:
        return "less"
    if shorter == longer:
        return "all"
    least = max(len(shorter) / 2, SHORTEST_RUN)
    if len(shorter) < SHORTEST_RUN or len(set(shorter) & set(longer)) * 2 < len(set(shorter)):
        return "less"
    run = _longest_run(shorter, longer)
    if run == len(shorter):
        return "all"
    return "half" if run >= least else "less"


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


def recall(found: Iterable[str], gold: Collection[str]) -> float:
    """Return the share of the gold passages that are among those found, 0 to 1."""
    return len(set(found) & set(gold)) / len(set(gold)) if gold else 0.0


def recall_at(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """Return the recall of the first `k` passages."""
    return recall(ranked[:k], gold)


def precision(found: Collection[str], gold: Collection[str]) -> float:
    """Return the share of the passages found that are gold, 0 to 1; none found: 0."""
    return len(set(found) & set(gold)) / len(set(found)) if found else 0.0


def s_precision(found: Iterable[str], gold: Collection[str]) -> float:
    """Return 1.0 where what was found is exactly the gold set, else 0.0."""
    return float(set(found) == set(gold))


def filter_recall(kept: Iterable[str], found: Iterable[str], gold: Collection[str]) -> float | None:
    """Return the share of the gold passages found that a filter kept; None: none was found."""
    there = set(found) & set(gold)
    return len(set(kept) & there) / len(there) if there else None


def ndcg_at(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """Return nDCG at `k` with a gain of 1 for each gold passage, 0 to 1."""
    gain = sum(1 / math.log2(index + 2) for index, key in enumerate(ranked[:k]) if key in set(gold))
    best = sum(1 / math.log2(index + 2) for index in range(min(len(set(gold)), k)))
    return gain / best if best else 0.0


def answer_recall(texts: Iterable[str], answers: Collection[str]) -> float:
    """Return 1.0 where an answer stands in any of the passages' texts, else 0.0.

    Source: Karpukhin et al. 2020 (DPR), top-k retrieval accuracy.
    """
    return float(any(contains(text, answers) for text in texts))


def _of_gold(measure: Callable[[GoldPassages, Mapping[str, Any]], float | None]) -> Compute:
    """Return a metric against the gold passages, where there are any and a search was made."""

    def compute(question: Question, state: Mapping[str, Any]) -> float | None:
        if not question.gold or not (state["passages"] or state["retrieved"]):
            return None
        return measure(GoldPassages(question.gold, _all_of(told_apart(state["retrieved"]))), state)

    return compute


def _searched(state: Mapping[str, Any], k: int) -> Sequence[Document] | None:
    """Return what the question's own search found; None where it asked for fewer than `k`.

    What it asked for counts, not what came: a search that finds little or nothing has failed.
    """
    found: Sequence[Document] | None = state["retrieved"].get("question")
    return found if found is not None and state.get("search_depth", len(found)) >= k else None


def _recall_at(k: int) -> Compute:
    """Return the recall of the first `k` passages of the question's own search."""

    def of(gold: GoldPassages, state: Mapping[str, Any]) -> float | None:
        found = _searched(state, k)
        return None if found is None else recall_at(gold.names(found), gold.ids, k)

    return _of_gold(of)


def _ndcg_at_10(gold: GoldPassages, state: Mapping[str, Any]) -> float | None:
    found = _searched(state, 10)
    return None if found is None else ndcg_at(gold.names(found, once=True), gold.ids, 10)


def _all_of(found: Mapping[str, Sequence[Document]]) -> list[Document]:
    return [doc for docs in found.values() for doc in docs]


def _filter_precision(gold: GoldPassages, state: Mapping[str, Any]) -> float | None:
    return gold.precision(_all_of(state["kept"])) if state["kept"] else None


def _filter_recall(gold: GoldPassages, state: Mapping[str, Any]) -> float | None:
    if not state["kept"]:
        return None
    there = gold.names(_all_of(told_apart(state["retrieved"])) or state["passages"])
    return filter_recall(gold.names(_all_of(state["kept"])), there, gold.ids)


def _answer_recall(question: Question, state: Mapping[str, Any]) -> float | None:
    if question.scoring != "short" or not question.answers:
        return None
    if not (state["passages"] or state["retrieved"]):
        return None
    return answer_recall([doc.page_content for doc in state["passages"]], question.answers)


_BLENDFILTER = "Wang et al. 2024, BlendFilter, section 4.4"

RECALL = Metric(
    name="recall",
    label="Recall",
    summary="Share of the gold passages that stood in the prompt.",
    compute=_of_gold(lambda gold, state: recall(gold.names(state["passages"]), gold.ids)),
    group="passages",
    primary=("retrieval",),
    source=_BLENDFILTER,
)
PRECISION = Metric(
    name="precision",
    label="Precision",
    summary="Share of the prompt's passages that are gold.",
    compute=_of_gold(lambda gold, state: gold.precision(state["passages"])),
    group="passages",
    source=_BLENDFILTER,
)
S_PRECISION = Metric(
    name="s_precision",
    label="S-Precision",
    summary="The prompt's passages are exactly the gold ones.",
    compute=_of_gold(lambda gold, state: s_precision(gold.names(state["passages"]), gold.ids)),
    group="passages",
    source=_BLENDFILTER,
)
FILTER_PRECISION = Metric(
    name="filter_precision",
    label="Filter precision",
    summary="Share of the passages that a filter kept which are gold.",
    compute=_of_gold(_filter_precision),
    group="passages",
)
FILTER_RECALL = Metric(
    name="filter_recall",
    label="Filter recall",
    summary="Share of the gold passages found that a filter kept.",
    compute=_of_gold(_filter_recall),
    group="passages",
)
RECALL_AT = tuple(
    Metric(
        name=f"recall@{k}",
        label=f"Recall@{k}",
        summary=f"Share of the gold passages among the first {k} found.",
        compute=_recall_at(k),
        group="passages",
    )
    for k in (1, 5, 10, 20)
)
NDCG_AT_10 = Metric(
    name="ndcg@10",
    label="nDCG@10",
    summary="Discounted gain of the gold passages among the first 10 found.",
    compute=_of_gold(_ndcg_at_10),
    group="passages",
    source="Järvelin & Kekäläinen 2002",
)
ANSWER_RECALL = Metric(
    name="answer_recall",
    label="Answer recall",
    summary="A gold answer stands in a passage of the prompt.",
    compute=_answer_recall,
    group="passages",
    source="Karpukhin et al. 2020, DPR",
)
