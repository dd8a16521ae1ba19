"""Context filters (FILCO): measures of how much a segment of a passage helps, and what is kept by them.

A filter is declared by one value, whether ours, a trained one's or a package's:

    FILTER = FilterKind(name="first", summary="The first sentence of each passage.", scores=first)

with a function `first(question, segments, answers, settings)` that returns a score for each segment; the best above a
threshold stay. A package lists it as an entry point of the group `ragweave.filters`.

Sources: Wang et al. 2023 (Learning to Filter Context for Retrieval-Augmented Generation), section 2.2: STRINC, LEXICAL,
CXMI, and its released code for the lines that its models read and write: `question: …`, `context: …`, `answer: …`; in
fact verification `claim: …` and `judgement: …`. Xu et al. 2024 (RECOMP: Improving Retrieval-Augmented LMs with
Compression and Selective Augmentation), section 3.1: question and sentences are encoded separately, and the nearest
ones stay; the paper trains Contriever for it.

Where we differ: Wizard of Wikipedia's `query: …` and `response: …` are a question and an answer here.
"""

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from langchain_core.documents import Document
from typing_extensions import TypedDict

from ragweave.errors import UsageError
from ragweave.registry import Registry
from ragweave.tools.embeddings.named import BiEncoderScorer
from ragweave.tools.models.roles import LogprobScorer
from ragweave.tools.text import CLAIM
from ragweave.tools.text.words import overlap, split_sentences, words

_LABELS = {"yes": "SUPPORTS", "true": "SUPPORTS", "no": "REFUTES", "false": "REFUTES"}
_VERDICTS = {*_LABELS, *map(str.lower, _LABELS.values())}
_ARTICLES = re.compile(r"\b(a|an|the)\b")
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
    if not question.startswith(CLAIM):
        return FilcoTask(question)
    rule = (
        "('SUPPORTS' or 'REFUTES')\nIf the 'context' does not provide enough information to judge the claim, use your "
        "own knowledge instead."
    )
    return FilcoTask(question.removeprefix(CLAIM), "claim", "judgement", "judgement to the claim", rule)


def only_verdicts(answers: Iterable[str]) -> bool:
    """Return whether all answers are verdicts (yes, no, SUPPORTS, REFUTES), which no sentence contains."""
    folded = {answer.strip().lower() for answer in answers}
    return bool(folded) and folded <= _VERDICTS


def outputs_of(question: str, answers: Iterable[str]) -> list[str]:
    """Return the right answers as the generator writes them: FEVER's labels for the verdicts on a claim."""
    is_claim = filco_task(question).kind == "claim"
    return [_LABELS.get(answer.strip().lower(), answer) if is_claim else answer for answer in answers]


def question_line(question: str) -> str:
    """Return `question: …`, or `claim: …`."""
    task = filco_task(question)
    return f"{task.kind}: {task.asked}"


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


def filco_normalize(text: str) -> str:
    """Return a text in lower case without articles but with punctuation: the rule of FILCO's released code."""
    return " ".join(_ARTICLES.sub(" ", unicodedata.normalize("NFD", text).lower()).split())


def lexical(text: str, target: str) -> float:
    """Return the F1 of the letters that a text shares with a target, in [0, 1] (LEXICAL, as released).

    The target is the right answer (question answering, dialogue) or the query (fact verification).
    """
    return overlap(filco_normalize(text), filco_normalize(target))


def quoted(written: str, texts: Sequence[str]) -> list[float]:
    """Return how far a model's reply quotes each text, in [0, 1].

    Each sentence of the reply counts for the first text that contains it word for word; else for the
    texts that it contains; else for the most similar text, if their unigram F1 is at least 0.5.
    """
    scores, folded = [0.0] * len(texts), [f" {' '.join(words(text))} " for text in texts]
    for sentence in split_sentences(written):
        quote = f" {' '.join(words(sentence.text))} "
        if not quote.strip():
            continue
        similarity = [overlap(words(text), words(sentence.text)) for text in texts]
        matches = [at for at, text in enumerate(folded) if quote in text][:1]
        matches = matches or [at for at, text in enumerate(folded) if text.strip() and text in quote]
        if matches:
            similarity = [1.0] * len(texts)
        elif max(similarity, default=0.0) >= _QUOTED:
            matches = [similarity.index(max(similarity))]
        for at in matches:
            scores[at] = max(scores[at], similarity[at])
    return scores


# ---- filters

Granularity = Literal["sentence", "passage"]
"""What is kept or dropped: sentences, or full passages (the paper's PSG)."""

FilterName = Literal["lexical", "strinc", "cxmi", "recomp", "full", "llm", "own"]
"""The filters that a run may choose: ours, a model that names sentences, or the one that the graph was built with."""


class Span(TypedDict):
    """A segment in plain JSON values, as rows of training data hold it: `passage[start:end] == text`."""

    passage_id: str
    start: int
    end: int
    text: str
    score: float


def span_of(segment: Document, score: float = 0.0) -> Span:
    """Return a segment, as `split_passages` makes it, as a span."""
    start, text = segment.metadata["start"], segment.page_content
    return {"passage_id": str(segment.id), "start": start, "end": start + len(text), "text": text, "score": score}


@dataclass(frozen=True, kw_only=True)
class FilterSettings:
    """The settings of a filter; each uses those that apply to it."""

    scorer: LogprobScorer | None = None
    """What scores outputs; the run's usage counts its calls."""
    encoder: str = ""
    """The bi-encoder of `recomp`; empty: the packaged MiniLM."""


Scores: TypeAlias = Callable[[str, Sequence[Document], Sequence[str], FilterSettings], Sequence[float]]


@dataclass(frozen=True, kw_only=True)
class FilterKind:
    """A context filter: its name, how it scores, and what it keeps by default."""

    name: str
    summary: str
    """What it keeps, in one line."""
    scores: Scores
    """From question, segments and right answers (maybe none) to a score for each segment."""
    threshold: float = 0.0
    """What a score must exceed."""
    top: int | None = 1
    """Maximum number of segments kept; None: all above the threshold."""
    granularity: Granularity | None = None
    """The only granularity that it supports; None: any. A filter of passages may drop all; of sentences, all stay if none is kept."""
    reads_answers: bool = True
    """Whether right answers change its scores."""
    untrained: bool = False
    """Whether, without answers, it only compares with the question; half of the text then stays."""

    def best(self, scores: Sequence[float], *, top: int | None = 1, threshold: float | None = None) -> list[int]:
        """Return the indices of the segments to keep, best first, equal ones in order.

        `top` is their maximum number (None: all above the threshold), and `threshold` is what a score must exceed (None:
        the filter's own).
        """
        least = self.threshold if threshold is None else threshold
        above = [at for at, score in enumerate(scores) if score > least]
        return sorted(above, key=lambda at: -scores[at])[:top]


def best_share(segments: Sequence[Document], best: Sequence[int], characters: float) -> list[int]:
    """Return as many of the best segments, given by index, as make up a number of characters, at least one."""
    taken: list[int] = []
    for at in best:
        if characters <= 0:
            break
        taken.append(at)
        characters -= len(segments[at].page_content)
    return taken


def _strinc(question: str, segments: Sequence[Document], answers: Sequence[str], _: FilterSettings) -> list[float]:
    outputs = [output.lower() for output in outputs_of(question, answers) if output.strip()]
    return [float(any(output in segment.page_content.lower() for output in outputs)) for segment in segments]


def _lexical(question: str, segments: Sequence[Document], answers: Sequence[str], _: FilterSettings) -> list[float]:
    texts = [segment.page_content for segment in segments]
    if not answers:
        asked = list(words(filco_task(question).asked))
        return [overlap(words(text), asked) for text in texts]
    return [max(lexical(text, target) for target in outputs_of(question, answers)) for text in texts]


def _cxmi(question: str, segments: Sequence[Document], answers: Sequence[str], settings: FilterSettings) -> list[float]:
    """Return log M(o | t ⊕ q) − log M(o | q) for each segment t.

    The scorer M is called once; in the paper it is Flan-T5-XL, untrained. The output o is the right answer, or the label
    of a claim. For a causal scorer, a line that the released code does not have leads to the output.
    """
    scorer = settings.scorer
    if scorer is None:
        raise UsageError("the cxmi filter needs a scorer: build_graph(…, scorer=scorer_of('llamacpp:model.gguf'))")
    lead = f"\n{answer_line(question, '')}" if getattr(scorer, "causal", False) else ""
    task, output = filco_task(question), outputs_of(question, answers)[0]
    asked = f"question: Given the ['context', '{task.kind}'], predict the {task.wanted}:{task.asked}{lead}"
    prompts = [asked, *(f"context: {segment.page_content}\n{asked}" for segment in segments)]
    base, *scores = scorer.score([(prompt, output) for prompt in prompts])
    return [score - base for score in scores]


_ENCODING = threading.Lock()
"""Tokenizers and most encoders are not safe under threads."""


def _recomp(
    question: str, segments: Sequence[Document], _answers: Sequence[str], settings: FilterSettings
) -> list[float]:
    with _ENCODING:
        encoder = _encoder(settings.encoder or "minilm")
        return list(encoder.predict([(question, segment.page_content) for segment in segments]))


@lru_cache(maxsize=2)
def _encoder(name: str) -> BiEncoderScorer:
    return BiEncoderScorer(name)


LEXICAL = FilterKind(
    name="lexical",
    summary="Segments that share letters with an answer, or words with the question (LEXICAL).",
    scores=_lexical,
    untrained=True,
)
_OURS = (
    FilterKind(
        name="full",
        summary="Every passage, uncut (FULL).",
        scores=lambda _question, segments, _answers, _: [1.0] * len(segments),
        top=None,
        granularity="passage",
        reads_answers=False,
    ),
    FilterKind(name="strinc", summary="Segments that contain an answer (STRINC).", scores=_strinc),
    LEXICAL,
    FilterKind(
        name="cxmi", summary="Segments that make the answer more probable (CXMI); needs a scorer.", scores=_cxmi
    ),
    FilterKind(
        name="recomp",
        summary="Sentences that a bi-encoder finds nearest to the question (RECOMP, extractive).",
        scores=_recomp,
        threshold=-2.0,  # below any cosine
        reads_answers=False,
        untrained=True,
    ),
)
FILTERS: Registry[FilterKind] = Registry("ragweave.filters", FilterKind, "context filter", lambda: _OURS)
"""Every filter by name: ours, then those of other packages (entry points `ragweave.filters`)."""
