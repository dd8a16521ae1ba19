"""Which stage lost an answer, and which setting to try: `explain`, and a column of the report for each stage.

The stages follow an answer on its way from the documents to the metric; the first that lost it is named. What is read is
the knowledge base, the graph's final state (`retrieved`, `passages`, `candidates`, `notes`) and, where a passage was not
found, one deep search for each mode. No model is called.

A passage is *evidence* if the data set marks it as gold, or if a right answer stands in it. An answer such as "two" or
"1994" stands in many passages that have nothing to do with the question, so without gold passages it must also share
words with the question.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, Literal, get_args

from langchain_core.documents import Document

from ragweave.datasets import Question
from ragweave.evaluation.metrics import Metric, State, given
from ragweave.evaluation.metrics.answers import contains
from ragweave.evaluation.metrics.metric import Compute
from ragweave.evaluation.metrics.passages import gold_names
from ragweave.evaluation.metrics.text import stands_in, words_of
from ragweave.names import RetrieverName
from ragweave.tools.knowledge import KnowledgeBase
from ragweave.tools.text.words import terms

Stage = Literal["documents", "chunking", "retrieval", "selection", "reading", "vote", "refusal", "metric"]
SUMMARIES: Mapping[Stage, str] = {
    "documents": "The answer is not in the documents.",
    "chunking": "The answer is in the documents, but chunking cut it apart.",
    "retrieval": "The passage with the answer was not found.",
    "selection": "The passage was found, but not passed on to the answer prompt.",
    "reading": "The model read the passage, and answered otherwise.",
    "vote": "A candidate was right, but another one was chosen.",
    "refusal": "The model read the passage, and said Unknown.",
    "metric": "The answer holds the right one, but the metric does not count it.",
}
"""What each stage means."""
STATE = ["answer", "status", "passages", "retrieved", "candidates", "notes"]
"""The keys of a graph's state that `explain` reads."""

_DEEP = 1000
"""Passages of a deep search."""
_ABOUT = 0.2
"""The share of a question's words, by weight, in a passage about it: on 300 questions of NQ it keeps 97 % of the gold
passages, and 7 % of the others that hold an answer."""
_RARE = 0.002
"""The share of passages up to which an answer is rare enough to be evidence wherever it stands."""
_DENIAL = re.compile(r"\b(?:not|never|no|neither|nor)\b|n['’]t\b", re.I)


@dataclass(frozen=True)
class Finding:
    """What became of an answer."""

    stage: Stage
    detail: str = ""
    advice: str = ""
    """What to try, in words."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What to try as options of `ragweave ask`: `k`, `retriever`, `method`."""

    def __str__(self) -> str:
        return "\n".join(filter(None, [SUMMARIES[self.stage], self.detail, self.advice and f"Try {self.advice}."]))


class Library:
    """The passages of a knowledge base, read once for many questions. Memory grows with the knowledge base."""

    def __init__(self, base: KnowledgeBase, mode: RetrieverName = "auto") -> None:
        self.base = base
        self.mode: RetrieverName = "graph" if mode == "auto" else mode

    @cached_property
    def passages(self) -> list[Document]:
        """Every passage, those of a source in its order."""
        return self.base.passages()

    @property
    def modes(self) -> list[RetrieverName]:
        """How it can be searched, the mode in use first."""
        modes: list[RetrieverName] = ["bm25", "graph"]
        if self.base.settings.embedding:
            modes += ["hybrid", "dense"]
        return sorted(modes, key=lambda mode: mode != self.mode)

    def evidence(self, question: Question) -> list[set[str]]:
        """Return the ids of the passages that answer a question, one set for each part that is needed.

        A part is a gold passage with the chunks of it. A question without gold passages has one part: where an answer
        stands. A part that is not in the documents is an empty set.
        """
        if not question.gold:
            return [{str(doc.id) for answer in question.answers for doc in self._evidence_of(answer, question)}]
        parts: dict[str, set[str]] = {name: set() for name in question.gold}
        for doc in self.passages:
            for name in gold_names(question, [doc]):
                parts.get(name, set()).add(str(doc.id))
        return [*parts.values()]

    def holding(self, *answers: str) -> list[Document]:
        """Return the passages in which one of some answers stands."""
        return [doc for doc, words in zip(self.passages, self._words, strict=True) if _answers(words, answers)]

    def cut_apart(self, question: Question) -> tuple[Document, Document] | None:
        """Return two neighbours of a source that hold an answer only together; None if there are none."""
        golds = question.answers
        for (doc, words), (following, more) in pairwise(zip(self.passages, self._words, strict=True)):
            same = doc.metadata.get("source") == following.metadata.get("source")
            if same and _answers(words + more, golds) and not (_answers(words, golds) or _answers(more, golds)):
                return doc, following
        return None

    def rank(self, question: Question, ids: Iterable[str], mode: RetrieverName) -> int | None:
        """Return the rank, from 1, of the first of some passages in a deep search; None: it is not found."""
        docs, wanted = self.base.as_retriever(_DEEP, mode).find(question.question), set(ids)
        return next((rank for rank, doc in enumerate(docs, 1) if doc.id in wanted), None)

    @cached_property
    def _words(self) -> list[tuple[str, ...]]:
        return [words_of(doc.page_content) for doc in self.passages]

    @cached_property
    def _counts(self) -> Counter[str]:
        """In how many passages each term stands."""
        return Counter(term for doc in self.passages for term in _terms(_titled(doc)))

    def _evidence_of(self, answer: str, question: Question) -> list[Document]:
        """Return the passages in which an answer stands: all if it is rare, else those about the question."""
        docs = self.holding(answer)
        if len(docs) <= max(1, _RARE * len(self.passages)):
            return docs
        return [doc for doc in docs if self._is_about(doc, question)]

    def _is_about(self, passage: Document, question: Question) -> bool:
        """Return whether a passage shares enough of a question's words, weighted by their rarity (idf)."""
        size = len(self.passages)
        weights = {term: math.log(1 + size / (self._counts[term] + 0.5)) for term in _terms(question.question)}
        shared = sum(weights[term] for term in weights.keys() & _terms(_titled(passage)))
        return shared >= _ABOUT * sum(weights.values())


@lru_cache(maxsize=1 << 14)
def _terms(text: str) -> frozenset[str]:
    return frozenset(terms(text))


def _titled(passage: Document) -> str:
    return f"{passage.metadata.get('title', '')} {passage.page_content}"


def _answers(words: tuple[str, ...], answers: Iterable[str]) -> bool:
    return any(stands_in(words_of(answer), words) for answer in answers)


def explain(question: Question, state: State, library: Library) -> Finding | None:
    """Return the first stage that lost the answer to a question; None: the answer is right, as `contains` counts.

    Args:
        question: The question with its right answers, and its gold passages if they are known.
        state: The graph's final state, with the keys `STATE`.
        library: What was searched.
    """
    answer = given(state)
    if contains(answer, question.answers):
        return None
    if answer and same_in_other_words(answer, question.answers):
        advice = "a judge, which counts it, such as correctness (eval --metrics)"
        return Finding("metric", f"{answer!r} stands for {question.answers[0]!r}.", advice)
    for name, candidate in (state.get("candidates") or {}).items():
        if contains(candidate["answer"], question.answers):
            detail = f"{name} gave {candidate['answer']!r}; the answer is {state['answer']!r}."
            return Finding("vote", detail, "another method, or more samples (-o samples=5)")
    evidence = library.evidence(question)
    if not all(evidence):
        return _missing(question, library)
    return _unread(question, state, library, evidence) or _read(state, evidence)


def same_in_other_words(answer: str, golds: Iterable[str]) -> bool:
    """Return whether an answer that a metric refuses is right all the same.

    It has all words of a right answer, in any order, or at least half of them, every number included, and no others. It
    does not deny what that answer says.
    """
    words = set(words_of(answer))
    for gold in golds:
        wanted = set(words_of(gold))
        numbers = {word for word in wanted if word.isdigit()}
        shortened = words <= wanted and numbers <= words and 2 * len(words) >= len(wanted)
        if (wanted <= words or shortened) and bool(_DENIAL.search(answer)) == bool(_DENIAL.search(gold)):
            return True
    return False


def _missing(question: Question, library: Library) -> Finding:
    """Return what became of an answer that no passage about the question holds."""
    if pair := library.cut_apart(question):
        detail = f"It begins in {pair[0].id} and ends in {pair[1].id}."
        return Finding("chunking", detail, "indexing again with `--chunker sentences`, or a larger --size or --overlap")
    ids = [str(doc.id) for doc in library.holding(*question.answers)]
    rank = library.rank(question, ids, library.mode) if ids else None
    if rank is None:
        return Finding("documents", "", "adding the document, or expecting the answer in its words")
    detail = f"It stands in {len(ids)} passages that share few words with the question; the nearest has rank {rank}."
    return Finding("documents", detail, f"-k {rank} if that passage answers it; else add the document", {"k": rank})


def _unread(question: Question, state: State, library: Library, evidence: Sequence[set[str]]) -> Finding | None:
    """Return why the answer prompt lacked evidence; None if it did not."""
    retrieved: Mapping[str, Sequence[Document]] = state.get("retrieved") or {}
    ranks = {str(doc.id): rank for docs in retrieved.values() for rank, doc in enumerate(docs, 1)}
    read = {str(doc.id): doc for doc in state["passages"]}
    if unseen := [ids for ids in evidence if not ids & (ranks.keys() | read.keys())]:
        return _not_found(question, unseen, library, max(map(len, retrieved.values()), default=0))
    for ids in evidence:
        docs = [doc for name, doc in read.items() if name in ids]
        # A filter may have cut out the sentence that answers.
        if not any(question.gold or _answers(words_of(doc.page_content), question.answers) for doc in docs):
            return _not_passed_on(state, ids, min((ranks[name] for name in ids & ranks.keys()), default=0), bool(docs))
    return None


def _not_found(question: Question, unseen: Sequence[set[str]], library: Library, k: int) -> Finding:
    ranks = {mode: [library.rank(question, ids, mode) for ids in unseen] for mode in library.modes}
    last = {mode: max(filter(None, values), default=0) if all(values) else 0 for mode, values in ranks.items()}
    shown = ", ".join(f"{mode} {rank or 'not at all'}" for mode, rank in last.items())
    detail = f"Its rank: {shown}; k was {k}."
    reaching = [mode for mode, rank in last.items() if rank]
    mode = min(reaching, key=lambda mode: last[mode], default=None)
    if mode is None or last[mode] > 4 * max(k, 5):
        more = {} if mode is None else {"method": "blendfilter"}
        return Finding("retrieval", detail, "a method that searches again, such as blendfilter, or --rerank", more)
    settings: dict[str, Any] = {"k": last[mode]} if last[mode] > k else {}
    if mode != library.mode:
        settings["retriever"] = mode
    advice = " ".join(f"-{'' if name == 'k' else '-'}{name} {value}" for name, value in settings.items())
    return Finding("retrieval", detail, advice, settings)


def _not_passed_on(state: State, ids: set[str], rank: int, is_cut: bool) -> Finding:
    notes = state.get("notes") or ()
    dropped = {name for note in notes if note["event"] == "passages_dropped" for name in note["detail"]["dropped"]}
    if ids & dropped:
        detail = f"It was found at rank {rank}, and did not fit into the prompt."
        return Finding("selection", detail, "a larger prompt_tokens, or fewer passages (-k)")
    detail = f"It was found at rank {rank}; " + ("its sentence was filtered out." if is_cut else "it was left out.")
    return Finding("selection", detail, "a looser filter, or concat, which passes everything on", {"method": "concat"})


def _read(state: State, evidence: Sequence[set[str]]) -> Finding:
    names = [str(doc.id) for doc in state["passages"]]
    place = min(at for at, name in enumerate(names, 1) if any(name in ids for ids in evidence))
    detail = f"It was passage {place} of {len(names)}."
    if state["status"] == "unknown":
        if any(len(candidate["passages"]) == 1 for candidate in state["candidates"].values()):
            return Finding("refusal", f"{detail} It was also read by itself.", "a stronger model")
        advice = "concat_pf, which reads each passage by itself, or a stronger model"
        return Finding("refusal", detail, advice, {"method": "concat_pf"})
    advice = "post_fusion, which reads passages one by one, fewer passages (-k), or a stronger model"
    return Finding("reading", f"{detail} The answer is {state['answer']!r}.", advice, {"method": "post_fusion"})


LOST = "lost_"
"""Before the name of a stage in the names of its metric."""


def stage_metrics(library: Library) -> list[Metric]:
    """Return a metric for each stage: whether it lost the answer to a question.

    Over questions with short answers they add up to what `contains` lacks to 100 %: it counts no answer as lost that says
    more than the right one.
    """
    latest: list[tuple[State, Finding | None]] = []  # all metrics ask about one state in turn

    def of_stage(stage: Stage) -> Compute:
        def compute(question: Question, state: State) -> float | None:
            if question.kind != "short" or not question.answers:
                return None
            if not latest or latest[0][0] is not state:
                latest[:] = [(state, explain(question, state, library))]
            finding = latest[0][1]
            return float(finding is not None and finding.stage == stage)

        return compute

    stages: tuple[Stage, ...] = get_args(Stage)
    return [
        Metric(f"{LOST}{stage}", stage, SUMMARIES[stage], of_stage(stage), higher_is_better=False) for stage in stages
    ]
