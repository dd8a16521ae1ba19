"""Silver contexts for filter and generator: what an oracle keeps of passages (FILCO, 2.2, 2.3).

The measure `gold` takes human annotations of sentences: QED's and CLAPNQ's selected sentences, the
supporting facts of HotpotQA and 2Wiki, and the gold evidence of Fool Me Twice, whose passages are
such pieces already.

The paper's trained baselines (section 4.2): PSG keeps or drops passages whole, by the same measures
(`unit="passage"`); FULL keeps them all (the measure `full`), and trains a generator alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from langchain_core.documents import Document

from ragweave.errors import UsageError
from ragweave.nodes.segments import split_passages
from ragweave.state.passages import with_id
from ragweave.tools.filters import FILTERS, FilterSettings, Granularity, Span, filco_task, only_verdicts, span_of
from ragweave.tools.models.tasks import TaskPassage, task_passages
from ragweave.tools.scorers.specs import LogprobScorer
from ragweave.trained import PartRole
from ragweave.training.labels.labeler import CachedCall, DroppedRow, LabelledRow, RowLabel
from ragweave.training.labels.models import named_model
from ragweave.training.labels.silver_passages import Passages
from ragweave.training.labels.source import InvalidRow, Item


def chosen_spans(item: Item, passages: Sequence[Document]) -> list[Span] | None:
    """Return the sentences that human annotators chose, in passage and reading order.

    None where the row has no such annotation; empty where it names no sentence of these passages.
    Offsets are those of the data set's own sentences, without white space around them.

    Args:
        item: The question.
        passages: The passages whose sentences are wanted; those of the data set.
    """
    fields = item.row.fields
    if "supporting_facts" in fields and "context" in fields:
        chosen = _facts(fields)
    elif "sentence_starts" in fields and "annotation" in fields:
        chosen = _explanation(fields)
    elif "output" in fields and "passages" in fields:
        chosen = _selected(fields)
    elif isinstance(fields.get("gold_evidence"), list):
        chosen = [(None, str(one.get("text") or "")) for one in fields["gold_evidence"]]
    else:
        return None
    spans: list[Span] = []
    for passage in map(with_id, passages):
        found = {(start, end) for text in chosen for start, end in _places(passage, text)}
        spans.extend(_span(passage, start, end) for start, end in sorted(found))
    return spans


def holds_choice(item: Item) -> bool:
    """Return whether a row has human annotations of sentences."""
    return chosen_spans(item, []) is not None


def _facts(fields: Mapping[str, Any]) -> list[tuple[str | None, str]]:
    """Return title and text of the supporting sentences."""
    wanted = {(str(title), int(number)) for title, number in fields["supporting_facts"]}
    return [
        (str(title), str(sentence))
        for title, sentences in fields["context"]
        for number, sentence in enumerate(sentences)
        if (str(title), number) in wanted
    ]


def _explanation(fields: Mapping[str, Any]) -> list[tuple[str | None, str]]:
    """Return QED's selected sentence; questions that no single sentence explains have none."""
    marked = fields["annotation"].get("selected_sentence") or {}
    start, end = marked.get("start"), marked.get("end")
    if not isinstance(start, int) or not isinstance(end, int) or end <= start:
        return []
    return [(None, str(fields["paragraph_text"])[start:end])]


def _selected(fields: Mapping[str, Any]) -> list[tuple[str | None, str]]:
    """Return the sentences that any annotator of CLAPNQ selected."""
    texts = (text for one in fields["output"] for text in one.get("selected_sentences") or ())
    return [(None, str(text)) for text in dict.fromkeys(texts)]


def _places(passage: Document, chosen: tuple[str | None, str]) -> Iterator[tuple[int, int]]:
    """Yield where a chosen sentence stands in a passage: nowhere, or its first place."""
    title, text = chosen[0], chosen[1].strip()
    if not text or (title is not None and title != passage.metadata.get("title")):
        return
    start = passage.page_content.find(text)
    if start >= 0:
        yield start, start + len(text)


def _span(passage: Document, start: int, end: int) -> Span:
    text = passage.page_content[start:end]
    return {"passage_id": str(passage.id), "start": start, "end": end, "text": text, "score": 1.0}


MEASURES = ("strinc", "lexical", "cxmi", "gold", "full")
"""The paper's three, human annotations, and everything (the paper's FULL)."""


class SilverLabeler:
    """Makes filter rows; the same rows train the generator."""

    role: PartRole = "filter"
    needs_gold = True

    def __init__(
        self,
        measure: str,
        passages: Passages,
        *,
        scorer: LogprobScorer | None = None,
        scorer_spec: str = "",
        top: int | None = 1,
        threshold: float | None = None,
        target: str = "auto",
        unit: Granularity = "sentence",
    ) -> None:
        """Set the oracle.

        Args:
            measure: One of `MEASURES`.
            passages: Where passages come from.
            scorer: The model that `cxmi` scores with.
            scorer_spec: What is written down of it.
            top: Spans kept of a question; None: all that pass. `gold` keeps all annotated ones,
                `full` everything.
            threshold: None takes the paper's: 0.5 for lexical, a log-ratio of 0 for cxmi.
            target: What lexical compares with: `answer`, `question`, or `auto`: the question in
                fact verification, the answer elsewhere.
            unit: What is kept or dropped: sentences, or passages whole (PSG).

        Raises:
            UsageError: A value is out of range or does not apply to the measure, `cxmi` lacks its
                scorer, or `gold` is asked of a knowledge base's passages.
            KnowledgeBaseError: The passages' knowledge base is not on this machine.
        """
        _check(measure, passages, scorer=scorer, threshold=threshold, unit=unit)
        _check_target(measure, target)
        scores = measure not in ("gold", "full")
        if not scores and top not in (None, 1):
            every = "annotated sentence" if measure == "gold" else "passage"
            raise UsageError(f"--top does not apply to {measure}, which keeps every {every}")
        passages.open()
        self._measure, self._passages, self._target = measure, passages, target
        self._unit: Granularity = "passage" if measure == "full" else unit
        self._how: dict[str, Any] = {"measure": measure}
        if self._unit == "passage":
            self._how["unit"] = "passage"
        if scores:
            self._how["top"] = top if top is not None else "all"
        self._filter = None if measure == "gold" else FILTERS.named(measure)
        self._scoring = FilterSettings(scorer=scorer)
        self._top, self._threshold = top if scores else None, threshold
        if self._filter and measure in ("lexical", "cxmi"):
            usual = self._filter.threshold if self._filter.oracle_threshold is None else self._filter.oracle_threshold
            self._how["threshold"] = usual if threshold is None else threshold
        if measure == "cxmi":
            self._how["scorer"] = named_model(scorer, scorer_spec)

    def settings(self) -> dict[str, Any]:
        """Return what bears on the rows."""
        compared = {"target": self._target} if self._measure == "lexical" else {}
        return {**self._how, **compared, **self._passages.described}

    def check(self, item: Item) -> InvalidRow | None:
        """Say what is wrong with a row."""
        if not _answers(item):
            error = str(item.row.error("no gold answers"))
            return InvalidRow(item.index, item.data, "no gold answers", error)
        lacking = self._passages.check(item)
        if lacking is not None:
            return lacking
        if self._measure == "gold" and not holds_choice(item):
            error = str(item.row.error("has no human annotations of sentences: use strinc, lexical or cxmi"))
            return InvalidRow(item.index, item.data, "no human annotations of sentences", error)
        return None

    async def make(self, item: Item, call: CachedCall) -> LabelledRow | DroppedRow:
        """Make the row; where nothing helps, its spans are empty."""
        del call  # scoring is repeated after a crash: it costs no money and keeps no reply
        return await asyncio.to_thread(self._make, item)

    def rows_to_drop(self, labels: Sequence[RowLabel]) -> Mapping[int, str]:
        """Leave nothing out."""
        del labels
        return {}

    def count(self, row: Mapping[str, Any]) -> Mapping[str, int]:
        """Count spans, empty targets, and characters before and after."""
        kept = sum(span["end"] - span["start"] for span in row["spans"])
        return {
            "empty": int(not row["spans"]),
            "spans": len(row["spans"]),
            "characters": sum(len(one["text"]) for one in row["passages"]),
            "characters kept": kept,
        }

    def _make(self, item: Item) -> LabelledRow | DroppedRow:
        answers = _answers(item)
        passages = self._passages.of(item)
        if not passages:
            return DroppedRow("no passage was found")
        if self._measure == "strinc" and only_verdicts(answers):
            return DroppedRow("a yes or no answer, which strinc cannot look for")
        spans: list[Span]
        if self._filter is None:
            if not chosen_spans(item, self._passages.all_own(item)):
                return DroppedRow("no sentence is annotated")
            spans = chosen_spans(item, passages) or []
            if self._unit == "passage":
                spans = whole_passages(spans, passages)
        else:
            target = [filco_task(item.text).asked] if self._by_question(item) else answers
            spans = self._kept(item.text, passages, target)
        shown = task_passages(passages)
        row = {
            "id": item.id,
            "question": item.text,
            "answers": answers,
            "passages": shown,
            "spans": [{**span, "score": round(span["score"], 6)} for span in _in_reading_order(spans, shown)],
        }
        how = {**self._how, **self._passages.described}
        if self._measure == "lexical":
            how["target"] = "question" if self._by_question(item) else "answer"
        return LabelledRow(row, how)

    def _kept(self, question: str, passages: Sequence[Document], answers: Sequence[str]) -> list[Span]:
        assert self._filter is not None  # noqa: S101 - `gold` never gets here
        segments = split_passages([with_id(one) for one in passages], 1 if self._unit == "sentence" else 0)
        scores = self._filter.scores(question, segments, answers, self._scoring)
        best = self._filter.best(scores, top=self._top, threshold=self._threshold, answers=True)
        return [span_of(segments[at], scores[at]) for at in best]

    def _by_question(self, item: Item) -> bool:
        """Tell whether lexical compares with the question: in fact verification it does."""
        if self._measure != "lexical" or self._target == "answer":
            return False
        return self._target == "question" or only_verdicts(_answers(item))


def whole_passages(spans: Sequence[Span], passages: Sequence[Document]) -> list[Span]:
    """Return the passages that any of the spans is of, whole, in rank order."""
    named = {span["passage_id"] for span in spans}
    segments = split_passages([with_id(one) for one in passages], 0)
    return [span_of(one, 1.0) for one in segments if one.id in named]


def _check(
    measure: str,
    passages: Passages,
    *,
    scorer: LogprobScorer | None,
    threshold: float | None,
    unit: str,
) -> None:
    if unit not in get_args(Granularity):
        raise UsageError(f"--unit must be sentence or passage, not {unit!r}")
    if measure not in MEASURES:
        raise UsageError(f"--measure must be one of {', '.join(MEASURES)}, not {measure!r}")
    if measure == "cxmi" and scorer is None:
        raise UsageError(
            "--measure cxmi needs --scorer: hf:FOLDER, llamacpp:FILE.gguf, smollm2 or openai:NAME?base_url=…"
        )
    if measure != "cxmi" and scorer is not None:
        raise UsageError(f"--scorer is for --measure cxmi; {measure} scores with no model")
    if measure in ("strinc", "gold", "full") and threshold is not None:
        raise UsageError(f"--threshold is for lexical and cxmi; {measure} has none")
    if measure == "gold" and not passages.own:
        raise UsageError("--measure gold keeps sentences of the data set's passages: leave --kb")


def _check_target(measure: str, target: str) -> None:
    if target not in ("auto", "answer", "question"):
        raise UsageError(f"--target must be one of auto, answer, question, not {target!r}")
    if measure != "lexical" and target != "auto":
        raise UsageError(f"--target is for --measure lexical; {measure} has none")


def _answers(item: Item) -> list[str]:
    """Return the gold answers, best first: short ones, or the names of all that are to be said."""
    question = item.question
    if question is None or not question.answerable:
        return []
    if question.answer_sets:
        return list(dict.fromkeys(name for one in question.answer_sets for name in one))
    return list(question.answers)


def _in_reading_order(spans: Sequence[Span], passages: Sequence[TaskPassage]) -> list[Span]:
    """Return spans by rank and place: an order by score could be learnt from answers alone."""
    ranks = {one["id"]: rank for rank, one in enumerate(passages)}
    return sorted(spans, key=lambda one: (ranks[one["passage_id"]], one["start"]))
