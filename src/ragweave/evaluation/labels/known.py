"""Labels of what a model knows: for the necessity judge (SlimPLM) and for SKR-KNN.

Sources: Tan et al. 2024 (SlimPLM), section 3.2: a draft is known if it contains more than θ of the right answers;
Wang et al. 2023 (Self-Knowledge Guided Retrieval), section 3.1: a question needs retrieval if only the answer
with passages is right, and ties are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragweave.datasets import Question
from ragweave.errors import UsageError
from ragweave.evaluation.ask import draft
from ragweave.evaluation.folder import Record, dropped, row
from ragweave.evaluation.labels.settings import LabelSettings, match_ratio, unmatched
from ragweave.evaluation.metrics.answers import contains
from ragweave.evaluation.systems import GraphSystem, OwnPassages, graph_system


class Drafts:
    """Where drafts come from: a field of the row, or the proxy."""

    def __init__(self, settings: LabelSettings, models: Mapping[str, Any]) -> None:
        """Take the settings and the models."""
        self._field: str = settings.draft
        self._proxy: Any = models.get("proxy")
        if not self._field and self._proxy is None:
            raise UsageError("who drafts? Give --model proxy=SPEC, or --draft FIELD if the rows hold drafts")

    async def of(self, question: Question) -> str | None:
        """Return a question's draft, which may be empty; None if its row lacks the field."""
        if not self._field:
            return await draft(self._proxy, question.question)
        found = question.about.get(self._field)
        return found.strip() if isinstance(found, str) else None


class JudgeLabeller:
    """Labels whether a draft is known."""

    name = "judge"

    def __init__(self, settings: LabelSettings, models: Mapping[str, Any]) -> None:
        """Take the settings and the models: a `proxy`, unless the rows hold drafts."""
        self._settings, self._drafts = settings, Drafts(settings, models)

    async def __call__(self, question: Question) -> Record:
        """Label one question."""
        settings, groups = self._settings, _groups(question, self._settings)
        known = question.about.get(settings.label)
        if settings.label and not isinstance(known, bool):
            return dropped(f"no true or false in {settings.label!r}")
        if not settings.label and (why := unmatched(groups)):
            return dropped(why)
        said = await self._drafts.of(question)
        if said is None:
            return dropped(f"no text in {settings.draft!r}")
        more: Record = {}
        if not settings.label:
            ratio = match_ratio(said, groups)
            known, more = ratio > settings.theta, {"answers": [*map(list, groups)], "match_ratio": round(ratio, 6)}
        return row(id=question.id, question=question.question, draft=said, known=known, **more)


def _groups(question: Question, settings: LabelSettings) -> list[tuple[str, ...]]:
    if not settings.apart:
        return question.names
    return [(name,) for group in question.names for name in group]


class NeededLabeller:
    """Labels whether a question needs retrieval."""

    name = "needed"

    def __init__(self, settings: LabelSettings, models: Mapping[str, Any]) -> None:
        """Take the settings and the models: `answer`, unless the rows hold labels or drafts."""
        self._settings = settings
        self._graphs: list[GraphSystem] = []
        if settings.label or settings.draft:
            return
        if "answer" not in models:
            raise UsageError("who answers? Give --model answer=SPEC, --draft FIELD, or --label FIELD")
        found = models.get("retriever") or retriever(settings)
        specs = ("direct", f"direct[retrieve=true,k={settings.k}]")
        self._graphs = [graph_system(one, {"answer": models["answer"]}, found, ()) for one in specs]

    async def __call__(self, question: Question) -> Record:
        """Label one question."""
        settings = self._settings
        if settings.label:
            said = question.about.get(settings.label)
            needed = said if settings.label != "known" else not said
            return self._row(question, needed) if isinstance(said, bool) else dropped("no label")
        groups = _groups(question, settings)
        if why := unmatched(groups):
            return dropped(why)
        if settings.draft:
            draft = str(question.about.get(settings.draft) or "")
            return self._row(question, match_ratio(draft, groups) <= settings.theta)
        alone, searched = [await self._is_right(graph, question) for graph in self._graphs]
        return dropped("right or wrong either way") if alone == searched else self._row(question, searched)

    async def _is_right(self, graph: GraphSystem, question: Question) -> bool:
        answer = (await graph(question))["answer"]
        return any(contains(answer, names) for names in question.names)

    def _row(self, question: Question, needed: Any) -> Record:
        return row(id=question.id, question=question.question, needed=bool(needed))


def retriever(settings: LabelSettings) -> Any:
    """Return what is searched: a knowledge base, or the passages that come with a question."""
    if not settings.kb:
        return OwnPassages()
    from ragweave.tools.knowledge import retrievers

    return retrievers.retriever_named(settings.retriever, settings.kb)
