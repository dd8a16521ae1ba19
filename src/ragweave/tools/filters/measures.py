"""FILCO's measures of how much a segment helps, and the lines that its models read and write.

Source: Wang et al. 2023 (Learning to Filter Context for Retrieval-Augmented Generation), section
2.2, and its released code for the lines: `question: …`, `context: …`, `answer: …`; in fact verification
`claim: …` and `judgement: …`.

Where we differ: Wizard of Wikipedia's `query: …` and `response: …` are a question and an answer here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from ragweave.tools.models.scoring import LogprobScorer
from ragweave.tools.text.normalize import words
from ragweave.tools.text.sentences import split_sentences

Unit = Literal["words", "characters"]
"""What LEXICAL counts: words (the paper), or characters (the released code)."""

_ASKED = "Is this claim true? "
_LABELS = {"yes": "SUPPORTS", "true": "SUPPORTS", "no": "REFUTES", "false": "REFUTES"}
_VERDICTS = {*_LABELS, *map(str.lower, _LABELS.values())}
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_QUOTED = 0.5
"""Unigram F1 that a segment needs to count as the one that was written."""


class FilcoTask(NamedTuple):
    """What FILCO's models are asked for, in the words of the released code."""

    asked: str
    """The question, or the claim."""
    kind: str = "question"
    answer: str = "answer"
    wanted: str = "answer to the question"
    rule: str = ""


def filco_task(question: str) -> FilcoTask:
    """Return the task of a question: question answering, or the verification of a claim (FEVER)."""
    if not question.startswith(_ASKED):
        return FilcoTask(question)
    rule = (
        "('SUPPORTS' or 'REFUTES')\nIf the 'context' does not provide enough information to judge the claim, use your "
        "own knowledge instead."
    )
    return FilcoTask(question.removeprefix(_ASKED), "claim", "judgement", "judgement to the claim", rule)


def only_verdicts(answers: Iterable[str]) -> bool:
    """Say whether answers are verdicts alone (yes, no, SUPPORTS, REFUTES), which no sentence contains."""
    said = [one.strip().lower() for one in answers]
    return bool(said) and all(one in _VERDICTS for one in said)


def outputs_of(question: str, answers: Iterable[str]) -> list[str]:
    """Return the right answers as the generator writes them: FEVER's labels for the verdicts on a claim."""
    is_claim = filco_task(question).kind == "claim"
    return [_LABELS.get(one.strip().lower(), one) if is_claim else one for one in answers]


def question_line(question: str) -> str:
    """Return `question: …`, or `claim: …`."""
    task = filco_task(question)
    return f"{task.kind}: {task.asked}"


def context_line(context: str) -> str:
    """Return `context: …`."""
    return f"context: {context}"


def answer_line(question: str, answer: str) -> str:
    """Return `answer: …`, or `judgement: …`, what the generator writes."""
    return f"{filco_task(question).answer}: {answer}"


def filter_task(question: str) -> str:
    """Return the instruction of the context filter M_ctx."""
    task = filco_task(question)
    return f"Given the ['{task.kind}', 'context'], predict the most helpful sentence in the context.{task.rule}"


def generator_task(question: str, *, context: bool = True) -> str:
    """Return the instruction of the generator M_gen, with or without a context."""
    task = filco_task(question)
    given = f"'context', '{task.kind}'" if context else f"'{task.kind}'"
    return f"Given the [{given}], predict the {task.wanted}.{task.rule}"


def strinc(text: str, answers: Iterable[str]) -> float:
    """Return 1.0 if a text contains one of the answers, whatever the case, else 0.0 (STRINC)."""
    return float(any(one.strip() and one.lower() in text.lower() for one in answers))


def lexical(text: str, target: str, unit: Unit = "words") -> float:
    """Return the unigram F1 of a text with a target, in [0, 1] (LEXICAL).

    Args:
        text: The segment.
        target: The right answer (question answering, dialogue) or the query (fact verification).
        unit: `words` are lower-cased; `characters` are all of the lower-cased text without articles.
    """
    said, wanted = _units(text, unit), _units(target, unit)
    same = sum((Counter(said) & Counter(wanted)).values())
    return 2 * same / (len(said) + len(wanted)) if same else 0.0


def _units(text: str, unit: Unit) -> Sequence[str]:
    return words(text) if unit == "words" else " ".join(_ARTICLES.sub(" ", text.lower()).split())


def cxmi(
    texts: Sequence[str], question: str, output: str, scorer: LogprobScorer, lead: str | None = None
) -> list[float]:
    """Return log M(o | t ⊕ q) − log M(o | q) for each text t; a text above 0 helps (CXMI).

    The scorer is called once, and computes log M(o | q) once.

    Args:
        texts: The segments.
        question: q.
        output: o, the right answer, or the label of a claim.
        scorer: M; the paper's is Flan-T5-XL, untrained.
        lead: What stands between question and output; None: nothing, as in the released code, or a
            line that leads to the answer for a scorer that is `causal`.
    """
    task = filco_task(question)
    if lead is None:
        lead = f"\n{answer_line(question, '')}" if getattr(scorer, "causal", False) else ""
    asked = f"question: Given the ['context', '{task.kind}'], predict the {task.wanted}:{task.asked}{lead}"
    prompts = [asked, *(f"{context_line(one)}\n{asked}" for one in texts)]
    base, *scores = scorer.score([(prompt, output) for prompt in prompts])
    return [score - base for score in scores]


def quoted(written: str, texts: Sequence[str]) -> list[float]:
    """Return how far each text is quoted by what a model wrote, in [0, 1].

    Each sentence written counts for the first text that contains it, word for word; else for those
    that it contains; else for the most similar one, by a unigram F1 of 0.5 at least.
    """
    scores, folded = [0.0] * len(texts), [_folded(one) for one in texts]
    for sentence in split_sentences(written):
        said = _folded(sentence.text)
        if not said.strip():
            continue
        alike = [lexical(one, sentence.text) for one in texts]
        found = [at for at, one in enumerate(folded) if said in one][:1]
        found = found or [at for at, one in enumerate(folded) if one.strip() and one in said]
        if found:
            alike = [1.0] * len(texts)
        elif max(alike, default=0.0) >= _QUOTED:
            found = [alike.index(max(alike))]
        for at in found:
            scores[at] = max(scores[at], alike[at])
    return scores


def _folded(text: str) -> str:
    return f" {' '.join(words(text))} "
