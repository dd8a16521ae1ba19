"""Silver labels for the context filter and the generator: the segments of passages that help.

Source: Wang et al. 2023 (FILCO), sections 2.2 and 3.2: STRINC, LEXICAL, CXMI; in fact verification LEXICAL compares
with the claim. `gold` takes what annotators selected (CLAPNQ, QED, HotpotQA).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

from ragweave.datasets import Question
from ragweave.errors import UsageError
from ragweave.evaluation.folder import Record, dropped, row, shown_passage
from ragweave.evaluation.labels.known import retriever
from ragweave.evaluation.labels.settings import LabelSettings
from ragweave.nodes.segments import split_passages
from ragweave.tools.filters import FILTERS, FilterSettings, Span, filco_task, span_of
from ragweave.tools.models.scoring import scorer_of

GOLD = "gold"


class FilterLabeller:
    """Labels the segments of a question's passages that help with its answer."""

    def __init__(self, settings: LabelSettings, models: Mapping[str, Any]) -> None:
        """Take the settings and the models: a `scorer` for CXMI.

        Raises:
            UsageError: There is no such measure, or its scorer is missing.
        """
        self.name, self._settings = f"filter:{settings.measure}", settings
        self._kind = None if settings.measure == GOLD else FILTERS.named(settings.measure)
        spec = models.get("scorer") or settings.models.get("scorer")
        if settings.measure == "cxmi" and not spec:
            raise UsageError("cxmi needs a scorer: --model scorer=hf:NAME")
        self._scorer = scorer_of(spec) if spec else None
        self._retriever = retriever(settings) if settings.kb else None

    async def __call__(self, question: Question) -> Record:
        """Label one question."""
        settings = self._settings
        answers = [*question.answers, *(name for one in question.parts for name in one)]
        passages = await self._passages(question)
        if not answers or not passages:
            return dropped("no answer" if not answers else "no passage")
        if settings.measure == "strinc" and question.kind == "yes_no":
            return dropped("yes or no, which no sentence contains")
        spans = await asyncio.to_thread(self._spans, question, passages, answers)
        return row(
            id=question.id,
            question=question.question,
            answers=answers,
            passages=[shown_passage(one) for one in passages],
            spans=spans,
            source={"measure": settings.measure, "unit": settings.unit},
        )

    async def _passages(self, question: Question) -> list[Document]:
        if self._retriever is not None:
            found: list[Document] = await self._retriever.ainvoke(question.question, k=self._settings.k)
            return found
        return sorted(question.passages, key=lambda doc: doc.id not in question.gold)[: self._settings.k]

    def _spans(self, question: Question, passages: Sequence[Document], answers: Sequence[str]) -> list[Span]:
        settings = self._settings
        if self._kind is None:
            return selected(question, passages)
        segments = split_passages(passages, 1 if settings.unit == "sentence" else 0)
        if settings.measure == "lexical" and question.kind == "yes_no":
            answers = [filco_task(question.question).asked]
        scores = self._kind.scores(question.question, segments, answers, FilterSettings(scorer=self._scorer))
        best = self._kind.best(scores, top=settings.top, threshold=settings.threshold, answers=True)
        return [span_of(segments[at], round(scores[at], 6)) for at in sorted(best)]


def selected(question: Question, passages: Sequence[Document]) -> list[Span]:
    """Return the sentences that annotators selected, where they stand in the gold passages."""
    spans: list[Span] = []
    for doc in (one for one in passages if one.id in question.gold):
        found = [(doc.page_content.find(text), text) for text in question.about.get("selected", ())]
        spans += [
            {"passage_id": str(doc.id), "start": start, "end": start + len(text), "text": text, "score": 1.0}
            for start, text in sorted(found)
            if start >= 0
        ]
    return spans
