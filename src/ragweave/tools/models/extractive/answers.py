"""Answers from passages: short, long, yes or no, or the best of given candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragweave.state import AnswerType
from ragweave.tools.models.extractive import minilm
from ragweave.tools.models.extractive.alignment import aligned
from ragweave.tools.models.extractive.clauses import clause, done_to
from ragweave.tools.models.extractive.evidence import Evidence, gather
from ragweave.tools.models.extractive.question import Question, analyse
from ragweave.tools.models.extractive.ranking import Pick, rank_spans
from ragweave.tools.models.extractive.words import negated
from ragweave.tools.tasks import Task, TaskPassage
from ragweave.tools.text.normalize import normalize_answer
from ragweave.tools.text.unknown import UNKNOWN, is_unknown

_SURE = {"phrase": 0.12, "list": 0.12}
"""Confidence below which the clause is given, for kinds that a wrong word answers worst."""

_LEXICAL, _MIXED = 0.36, 0.42
"""Default thresholds, chosen on NQ-open with and without distractors: words alone; MiniLM."""
_SHARE = 0.3
"""Probability that a quoted sentence holds the answer, at least."""


@dataclass(frozen=True, slots=True)
class Reader:
    """How passages are read: the similarity in use and the support an answer needs."""

    threshold: float
    use_minilm: bool

    def evidence(self, question: str, passages: Sequence[TaskPassage]) -> list[Evidence]:
        """Return the sentences that reach the threshold, best first."""
        found = gather(analyse(question), passages, use_minilm=self.use_minilm)
        return [one for one in found if one.score >= self.threshold]

    def answer(self, task: Task) -> str:
        """Return the answer to a task's question from its passages, or Unknown."""
        found = self.evidence(task["question"], task.get("passages", []))
        if not found:
            return UNKNOWN
        question = analyse(task["question"])
        kind: AnswerType = task.get("answer_type", "short")
        if kind == "yes_no" or (kind == "short" and question.kind == "yes_no"):
            return yes_no(question, found[0])
        given = supported(task.get("candidates", []), found)
        if given:
            return given
        if kind == "long":
            return " ".join(one.text for one in support(question, found))
        return short(question, found)


def short(question: Question, found: Sequence[Evidence]) -> str:
    """Return the most probable span of `found`, or a clause where none is probable enough."""
    filled = aligned(question, found)
    if filled:
        return filled
    if question.kind == "definition" or done_to(question, found[0].text):
        return clause(question, found[0])
    picks = rank_spans(question, found)
    if not picks or picks[0].confidence < _SURE.get(question.kind, 0.0):
        return clause(question, found[0])
    return enumerated(picks[0])


def enumerated(pick: Pick) -> str:
    """Return a span, and with it the enumeration that a colon behind it announces."""
    after = pick.evidence.text[pick.end :]
    return (pick.text + after).rstrip(" .;") if after.startswith(": ") else pick.text


def support(question: Question, found: Sequence[Evidence]) -> list[Evidence]:
    """Return the one to three sentences that likely hold the answer, in reading order.

    A sentence counts where its spans have a share of the ranker's probability; where no span
    answers (a definition, yes or no), the best-supported sentence does.
    """
    if not found or question.kind in ("definition", "yes_no"):
        return list(found[:1])
    shares: dict[Evidence, float] = {}
    for pick in rank_spans(question, found):
        shares[pick.evidence] = shares.get(pick.evidence, 0.0) + pick.confidence
    best = [one for one, share in shares.items() if share >= _SHARE] or list(found[:1])
    return sorted(best[:3], key=lambda one: (one.passage, one.position))


def yes_no(question: Question, best: Evidence) -> str:
    """Return Yes where question and sentence agree in negation, else No."""
    return "Yes" if negated(question.text) == negated(best.text) else "No"


def supported(candidates: Sequence[str], found: Sequence[Evidence]) -> str:
    """Return the candidate that stands in the best-supported sentence, or "" for none.

    Ties, as between candidates of one sentence, go to the earlier candidate.
    """
    best, best_score = "", 0.0
    texts = [(f" {normalize_answer(one.text)} ", one.score) for one in found] if candidates else []
    for candidate in candidates:
        wanted = normalize_answer(candidate)
        if not wanted or is_unknown(candidate):
            continue
        score = max((reached for text, reached in texts if f" {wanted} " in text), default=0.0)
        if score > best_score:
            best, best_score = candidate, score
    return best


def reader(similarity: str, threshold: float | None) -> Reader:
    """Return the reader that a model's settings ask for on this machine."""
    mixed = similarity == "minilm" or (similarity == "auto" and minilm.available())
    tuned = _MIXED if mixed else _LEXICAL
    return Reader(tuned if threshold is None else threshold, mixed)
