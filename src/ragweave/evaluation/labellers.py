"""Labellers: systems whose record holds a training row, or says why there is none.

Sources: Tan et al. 2024 (SlimPLM), section 3.2: a draft is known if it contains more than θ of the right answers; section
3.3 and appendix A: a draft's claims and queries. Wang et al. 2023 (Self-Knowledge Guided Retrieval), section 3.1: a
question needs retrieval if only the answer with passages is right, and ties are dropped. Wang et al. 2023 (FILCO),
sections 2.2 and 3.2: STRINC, LEXICAL, CXMI; in fact verification LEXICAL compares with the claim.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.documents import Document

from ragweave.datasets import Question
from ragweave.errors import UsageError
from ragweave.evaluation.ask import ask, draft
from ragweave.evaluation.folder import Record, dropped, row, shown_passage
from ragweave.evaluation.metrics.answers import contains
from ragweave.evaluation.systems import GraphSystem, OwnPassages, graph_system
from ragweave.nodes.prompts import template_of
from ragweave.nodes.proxy import PROMPTS, Rewrite, Searched
from ragweave.nodes.segments import split_passages
from ragweave.tools.filters import FILTERS, FilterSettings, Span, filco_task, span_of
from ragweave.tools.models.scoring import scorer_of
from ragweave.tools.text.normalize import normalize_answer
from ragweave.tools.text.untrusted import untrusted


@dataclass(frozen=True, kw_only=True)
class LabelSettings:
    """All that labels depend on."""

    kind: str
    """`judge`, `rewrite`, `filter` or `needed`."""
    data: str
    """A data set's spec."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Specs by role: `proxy` drafts, `teacher` annotates, `answer` answers, `scorer` scores."""
    limit: int | None = None
    draft: str = ""
    """The field of the row that holds a draft; "": the proxy drafts."""
    label: str = ""
    """The field that holds the label, of `rewrite` the claims; "": it is made."""
    theta: float = 0.5
    """The share of the right answers that a known draft exceeds (SlimPLM, equation 2)."""
    apart: bool = False
    """Whether each name of an answer counts as an answer of its own, as in SlimPLM's released labels."""
    balance: bool = False
    seed: int = 0
    measure: str = "strinc"
    """A filter (`FILTERS`), or `gold`: what annotators selected."""
    unit: str = "sentence"
    """What is kept or dropped: `sentence`, or `passage` (FILCO's PSG)."""
    top: int | None = 1
    """Most segments kept; None: all above the threshold."""
    threshold: float | None = None
    """None: the filter's own."""
    k: int = 5
    """Passages a question; of those that come with it, the gold ones first."""
    kb: str = ""
    """A knowledge base to search in their place."""
    retriever: str = "auto"


def match_ratio(draft: str, groups: Sequence[Sequence[str]]) -> float:
    """Return the share of right answers of which a name is found in a draft, 0 to 1 (SlimPLM, equation 2).

    A name is found if it is a substring of the draft, both normalised: it need not end where a word ends, which
    reproduces the authors' released labels.
    """
    said = normalize_answer(draft)
    found = [any(name and name in said for name in map(normalize_answer, group)) for group in groups]
    return sum(found) / len(found) if found else 0.0


def unmatched(groups: Sequence[Sequence[str]]) -> str:
    """Say why no draft can be matched with the right answers; "": it can."""
    if not groups:
        return "no short answer"
    yes_no = all(name.strip().lower() in ("yes", "no") for group in groups for name in group)
    return "a yes or no answer, of which a match ratio says nothing" if yes_no else ""


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


class FilterLabeller:
    """Labels the segments of a question's passages that help with its answer."""

    def __init__(self, settings: LabelSettings, models: Mapping[str, Any]) -> None:
        """Take the settings and the models: a `scorer` for CXMI.

        Raises:
            UsageError: There is no such measure, or its scorer is missing.
        """
        self.name, self._settings = f"filter:{settings.measure}", settings
        self._kind = None if settings.measure == "gold" else FILTERS.named(settings.measure)
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


def target_text(found: Rewrite) -> str:
    """Return records as a rewriter's reply; one that needs no search has an empty query."""

    def shown(records: Sequence[Searched], kind: str, mark: str) -> str:
        return " ".join(
            f"<{kind}({_bare(one.text)})> <{mark}({one.needs_search})> <Query({_bare(one.query) * one.needs_search})>"
            for one in records
        )

    asked, said = shown(found.questions, "Question", "NeedSearch"), shown(found.claims, "Claim", "Search")
    return f"<Questions> {asked} </Questions>\n<Claims> {said} </Claims>".replace(">  <", "> <")


def _bare(text: str) -> str:
    return " ".join(re.sub(r"[<>]|```|&[lg]t;", " ", text).split())


class RewriteLabeller:
    """Labels drafts with their claims and queries: by a teacher, or as the rows hold them."""

    name = "rewrite"

    def __init__(self, settings: LabelSettings, models: Mapping[str, Any]) -> None:
        """Take the settings and the models: `teacher` and `proxy`, unless the rows hold claims and drafts.

        Raises:
            UsageError: Nobody annotates or drafts.
        """
        self._drafts, self._teacher, self._claims = Drafts(settings, models), models.get("teacher"), settings.label
        if self._teacher is None and not self._claims:
            raise UsageError("who annotates? Give --model teacher=SPEC, or --label FIELD if the rows hold claims")

    async def __call__(self, question: Question) -> Record:
        """Label one question."""
        draft = await self._drafts.of(question)
        if not draft:
            return dropped("no draft")
        if self._teacher is None:
            found = annotation(question.about, self._claims)
        else:
            values = {"question": question.question, "draft": untrusted(draft)}
            found = await ask(self._teacher, Rewrite, template_of(PROMPTS["rewrite"]).format_messages(**values))
        if found is None or not (found.questions or found.claims):
            return dropped("no annotation" if self._teacher is None else "a reply that cannot be read")
        return row(id=question.id, question=question.question, draft=draft, target=target_text(found))


def annotation(fields: Mapping[str, Any], claims: str) -> Rewrite | None:
    """Return the annotation of a row in the form of SlimPLM's released files; None if it has none.

    A record without a query has its own text for one, unless it needs no search.

    Args:
        fields: The row.
        claims: The field of the claims; the searches of the question itself are in `questions`.
    """
    said, asked = fields.get(claims), fields.get("questions")
    if not (isinstance(said, list) and isinstance(asked, list)):
        return None
    return Rewrite.model_construct(
        questions=_records(asked, "question", "searchWord"), claims=_records(said, "claim", "query")
    )


def _records(listed: Sequence[Any], text: str, query: str) -> list[Searched]:
    found = []
    for one in listed:
        said = " ".join(str(one.get(text) or "").split()) if isinstance(one, Mapping) else ""
        if said:
            searched = one.get("needSearch") is not False
            asked = " ".join(str(one.get(query) or said).split())
            found.append(Searched.model_construct(text=said, needs_search=searched, query=asked))
    return found
