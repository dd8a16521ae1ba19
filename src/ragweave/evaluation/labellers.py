"""Labellers: functions of a question whose record holds a training row, or says why there is none.

Sources: Tan et al. 2024 (SlimPLM), section 3.2: a draft is known if it contains more than θ of the right answers; section
3.3 and appendix A: a draft's claims and queries. Wang et al. 2023 (Self-Knowledge Guided Retrieval), section 3.1: a
question needs retrieval if only the answer with passages is right, and ties are dropped. Wang et al. 2023 (FILCO),
sections 2.2 and 3.2: STRINC, LEXICAL, CXMI; in fact verification LEXICAL compares with the claim.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

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
from ragweave.tools.filters import FILTERS, FilterKind, FilterSettings, Span, filco_task, span_of
from ragweave.tools.models import ChatModel
from ragweave.tools.models.roles import LogprobScorer
from ragweave.tools.models.specs import scorer_of
from ragweave.tools.text.untrusted import untrusted
from ragweave.tools.text.words import normalize_answer


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


Label: TypeAlias = Callable[[Question], Awaitable[Record]]
"""Labels a question."""


def drafts(settings: LabelSettings, models: Mapping[str, Any]) -> Callable[[Question], Awaitable[str | None]]:
    """Return what gives a question's draft, which may be empty: the proxy, or a field of the row (None: it lacks it)."""
    field, proxy = settings.draft, cast("ChatModel", models.get("proxy"))
    if not field and proxy is None:
        raise UsageError("who drafts? Give --model proxy=SPEC, or --draft FIELD if the rows hold drafts")

    async def draft_of(question: Question) -> str | None:
        if not field:
            return await draft(proxy, question.question)
        found = question.about.get(field)
        return found.strip() if isinstance(found, str) else None

    return draft_of


def judge(settings: LabelSettings, models: Mapping[str, Any]) -> Label:
    """Label whether a draft is known; a `proxy` drafts, unless the rows hold drafts."""
    draft_of = drafts(settings, models)

    async def label(question: Question) -> Record:
        groups, known = _groups(question, settings), question.about.get(settings.label)
        if settings.label and not isinstance(known, bool):
            return dropped(f"no true or false in {settings.label!r}")
        if not settings.label and (why := unmatched(groups)):
            return dropped(why)
        said = await draft_of(question)
        if said is None:
            return dropped(f"no text in {settings.draft!r}")
        more: Record = {}
        if not settings.label:
            ratio = match_ratio(said, groups)
            known, more = ratio > settings.theta, {"answers": [*map(list, groups)], "match_ratio": round(ratio, 6)}
        return row(id=question.id, question=question.question, draft=said, known=known, **more)

    return label


def _groups(question: Question, settings: LabelSettings) -> list[tuple[str, ...]]:
    if not settings.apart:
        return question.names
    return [(name,) for group in question.names for name in group]


def needed(settings: LabelSettings, models: Mapping[str, Any]) -> Label:
    """Label whether a question needs retrieval; `answer` answers, unless the rows hold labels or drafts."""
    graphs = [] if settings.label or settings.draft else _without_and_with_retrieval(settings, models)

    async def label(question: Question) -> Record:
        said, groups = question.about.get(settings.label), _groups(question, settings)
        if settings.label and not isinstance(said, bool):
            return dropped("no label")
        if settings.label:
            needs = said if settings.label != "known" else not said
        elif why := unmatched(groups):
            return dropped(why)
        elif settings.draft:
            needs = match_ratio(str(question.about.get(settings.draft) or ""), groups) <= settings.theta
        else:
            answers = [(await one(question))["answer"] for one in graphs]
            alone, needs = (any(contains(one, names) for names in question.names) for one in answers)
            if alone == needs:
                return dropped("right or wrong either way")
        return row(id=question.id, question=question.question, needed=needs)

    return label


def _without_and_with_retrieval(settings: LabelSettings, models: Mapping[str, Any]) -> list[GraphSystem]:
    if "answer" not in models:
        raise UsageError("who answers? Give --model answer=SPEC, --draft FIELD, or --label FIELD")
    found = models.get("retriever") or retriever(settings)
    specs = ("direct", f"direct[retrieve=true,k={settings.k}]")
    return [graph_system(one, {"answer": models["answer"]}, found, ()) for one in specs]


def retriever(settings: LabelSettings) -> Any:
    """Return what is searched: a knowledge base, or the passages that come with a question."""
    if not settings.kb:
        return OwnPassages()
    from ragweave.tools.knowledge import retrievers

    return retrievers.retriever_of(settings.retriever, settings.kb)


def context_filter(settings: LabelSettings, models: Mapping[str, Any]) -> Label:
    """Label the segments of a question's passages that help with its answer; CXMI needs a `scorer`."""
    kind = None if settings.measure == "gold" else FILTERS.named(settings.measure)
    spec = models.get("scorer") or settings.models.get("scorer")
    if settings.measure == "cxmi" and not spec:
        raise UsageError("cxmi needs a scorer: --model scorer=hf:NAME")
    scorer, searched = scorer_of(spec) if spec else None, retriever(settings) if settings.kb else None

    async def label(question: Question) -> Record:
        answers = [*question.answers, *(name for one in question.parts for name in one)]
        passages = sorted(question.passages, key=lambda doc: doc.id not in question.gold)[: settings.k]
        if searched is not None:
            passages = await searched.ainvoke(question.question, k=settings.k)
        if not answers or not passages:
            return dropped("no answer" if not answers else "no passage")
        if settings.measure == "strinc" and question.kind == "yes_no":
            return dropped("yes or no, which no sentence contains")
        return row(
            id=question.id,
            question=question.question,
            answers=answers,
            passages=[shown_passage(one) for one in passages],
            spans=await asyncio.to_thread(_spans, question, passages, answers, settings, kind, scorer),
            source={"measure": settings.measure, "unit": settings.unit},
        )

    return label


def _spans(
    question: Question,
    passages: Sequence[Document],
    answers: Sequence[str],
    settings: LabelSettings,
    kind: FilterKind | None,
    scorer: LogprobScorer | None,
) -> list[Span]:
    if kind is None:
        return selected(question, passages)
    segments = split_passages(passages, 1 if settings.unit == "sentence" else 0)
    if settings.measure == "lexical" and question.kind == "yes_no":
        answers = [filco_task(question.question).asked]
    scores = kind.scores(question.question, segments, answers, FilterSettings(scorer=scorer))
    best = kind.best(scores, top=settings.top, threshold=settings.threshold, answers=True)
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


def rewriter(settings: LabelSettings, models: Mapping[str, Any]) -> Label:
    """Label drafts with their claims and queries: by a `teacher`, or as the rows hold them."""
    draft_of, teacher = drafts(settings, models), models.get("teacher")
    if teacher is None and not settings.label:
        raise UsageError("who annotates? Give --model teacher=SPEC, or --label FIELD if the rows hold claims")

    async def label(question: Question) -> Record:
        draft = await draft_of(question)
        if not draft:
            return dropped("no draft")
        if teacher is None:
            found = annotation(question.about, settings.label)
        else:
            values = {"question": question.question, "draft": untrusted(draft)}
            found = await ask(teacher, Rewrite, template_of(PROMPTS["rewrite"]).format_messages(**values))
        if found is None or not (found.questions or found.claims):
            return dropped("no annotation" if teacher is None else "a reply that cannot be read")
        return row(id=question.id, question=question.question, draft=draft, target=target_text(found))

    return label


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
