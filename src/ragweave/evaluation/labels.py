"""Training labels by the same loop: a labeller is a system whose record holds a training row.

    make_labels(LabelSettings(kind="filter", data="nq:dev.json", measure="strinc"), Path("labels"))
    write_labels(Path("labels"))                        # labels/labels.jsonl

Concurrency, retries, resuming, shards and the reply cache are those of `run.py`. A question that gives no row has a record
with a reason, so that a resumed run does not ask again. The rows, one JSON object a line:

* `filter` (FILCO): `id, question, answers, passages [{id, title, text}], spans [{passage_id, start, end, text,
  score}], source {measure, unit}`; a span is `text == passage[start:end]`, in rank and reading order.
* `judge` (SlimPLM): `id, question, draft, known` (bool), `answers, match_ratio`.
* `rewriter` (SlimPLM): `id, question, draft, target`; the target is the rewriter's reply,
  `<Questions> <Question(…)> <NeedSearch(True)> <Query(…)> … </Questions>`, a line end, `<Claims> <Claim(…)>
  <Search(True)> <Query(…)> … </Claims>`.
* `needed` (SKR): `id, question, needed` (bool: retrieval helps).

Sources: Tan et al. 2024 (SlimPLM), section 3.2: a draft is known if it contains more than θ of the right answers; section
3.3 and appendix A: a draft's claims and queries. Wang et al. 2023 (Self-Knowledge Guided Retrieval), section 3.1: a
question needs retrieval if only the answer with passages is right, and ties are dropped. Wang et al. 2023 (FILCO),
sections 2.2 and 3.2: STRINC, LEXICAL, CXMI; in fact verification LEXICAL compares with the claim.
"""

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from langchain_core.documents import Document

from ragweave.datasets import Format, Question, open_dataset, select
from ragweave.datasets.dataset import format_of
from ragweave.datasets.formats import QUESTION
from ragweave.datasets.question import id_of
from ragweave.datasets.rows import Row
from ragweave.errors import UsageError
from ragweave.evaluation.folder import (
    Record,
    dropped,
    read_results,
    read_settings,
    row,
    shard_folder,
    shards,
)
from ragweave.evaluation.metrics.answers import contains
from ragweave.evaluation.metrics.judged import ask
from ragweave.evaluation.run import FunctionSystem, Run, Summary
from ragweave.evaluation.systems import graph_system, open_model, own_passages
from ragweave.graphs import slimplm
from ragweave.nodes import read
from ragweave.nodes.prompts import template_of
from ragweave.nodes.segments import split_passages
from ragweave.tools.filters import FILTERS, FilterKind, FilterSettings, Span, filco_task, span_of
from ragweave.tools.knowledge.retrievers import retriever_of
from ragweave.tools.models import ChatModel
from ragweave.tools.models.calls import Endpoint
from ragweave.tools.models.messages import task_passage, text_of
from ragweave.tools.models.roles import LogprobScorer
from ragweave.tools.providers import scorer_of
from ragweave.tools.text.untrusted import untrusted
from ragweave.tools.text.words import normalize_answer

LABELS = "labels.jsonl"
Label: TypeAlias = Callable[[Question], Awaitable[Record]]
"""Labels a question."""

_LONGEST = 4000
"""The most characters of a draft."""


@dataclass(frozen=True, kw_only=True)
class LabelSettings:
    """All that labels depend on."""

    kind: str
    """`judge`, `rewriter`, `filter` or `needed`."""
    data: str
    """A data set's spec."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Specs by role: `proxy` drafts, `teacher` annotates, `generator` answers, `scorer` scores."""
    limit: int | None = None
    draft: str = ""
    """The field of the row that holds a draft; "": the proxy drafts."""
    label: str = ""
    """Of `rewriter`, the field that holds claims; "": the teacher annotates."""
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


def _drafts(settings: LabelSettings, models: Mapping[str, Any]) -> Callable[[Question], Awaitable[str]]:
    """Return what gives a question's draft, which may be empty: the proxy, or a field of the row."""
    if not settings.draft and "proxy" not in models:
        raise UsageError("who drafts? Give --model proxy=SPEC, or --draft FIELD if the rows hold drafts")

    async def draft_of(question: Question) -> str:
        if not settings.draft:
            return await draft(models["proxy"], question.question)
        return str(question.about.get(settings.draft) or "").strip()

    return draft_of


async def draft(model: ChatModel, question: str) -> str:
    """Return a model's answer from memory, as SlimPLM's proxy drafts it (section 3.1; settings by its released code)."""
    settings: dict[str, Any] = {"temperature": 0.01, "top_p": 0.85, "max_tokens": 512}
    messages = template_of(slimplm.PROMPTS["draft"]).format_messages(question=question)
    endpoint = Endpoint(model)
    while True:
        try:
            reply = await endpoint.with_settings(settings).ainvoke(messages)
        except Exception as error:
            if not (name := endpoint.learn_refusal(error, settings)):
                raise
            del settings[name]
        else:
            return read.cut(read.plain(text_of(reply)), _LONGEST)


def judge(settings: LabelSettings, models: Mapping[str, Any]) -> Label:
    """Label whether a draft is known; a `proxy` drafts, unless the rows hold drafts."""
    draft_of = _drafts(settings, models)

    async def label(question: Question) -> Record:
        groups = question.names
        if settings.apart:
            groups = [(name,) for group in groups for name in group]
        if why := unmatched(groups):
            return dropped(why)
        if not (said := await draft_of(question)):
            return dropped("no draft")
        ratio = match_ratio(said, groups)
        return row(
            id=question.id,
            question=question.question,
            draft=said,
            known=ratio > settings.theta,
            answers=[*map(list, groups)],
            match_ratio=round(ratio, 6),
        )

    return label


def needed(settings: LabelSettings, models: Mapping[str, Any]) -> Label:
    """Label whether a question needs retrieval, by the generator without passages and with them."""
    if "generator" not in models:
        raise UsageError("who answers? Give --model generator=SPEC")
    found = retriever_of("auto", settings.kb) if settings.kb else own_passages
    specs = ("direct", f"direct[retrieve=true,k={settings.k}]")
    graphs = [graph_system(one, {"generator": models["generator"]}, found, ()) for one in specs]

    async def label(question: Question) -> Record:
        if why := unmatched(question.names):
            return dropped(why)
        answers = [(await one(question))["answer"] for one in graphs]
        alone, helped = (any(contains(one, names) for names in question.names) for one in answers)
        if alone == helped:
            return dropped("right or wrong either way")
        return row(id=question.id, question=question.question, needed=helped)

    return label


def context_filter(settings: LabelSettings, models: Mapping[str, Any]) -> Label:
    """Label the segments of a question's passages that help with its answer; CXMI needs a `scorer`."""
    kind = None if settings.measure == "gold" else FILTERS.named(settings.measure)
    spec = models.get("scorer") or settings.models.get("scorer")
    if settings.measure == "cxmi" and not spec:
        raise UsageError("cxmi needs a scorer: --model scorer=hf:NAME")
    scorer = scorer_of(spec) if spec else None
    searched = retriever_of("auto", settings.kb) if settings.kb else None

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
            passages=[task_passage(one) for one in passages],
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


def target_text(found: slimplm.Rewrite) -> str:
    """Return records as a rewriter's reply; one that needs no search has an empty query."""

    def shown(records: Sequence[slimplm.Searched], kind: str, mark: str) -> str:
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
    draft_of, teacher = _drafts(settings, models), models.get("teacher")
    if teacher is None and not settings.label:
        raise UsageError("who annotates? Give --model teacher=SPEC, or --label FIELD if the rows hold claims")

    async def label(question: Question) -> Record:
        if not (said := await draft_of(question)):
            return dropped("no draft")
        if teacher is None:
            found = annotation(question.about, settings.label)
        else:
            values = {"question": question.question, "draft": untrusted(said)}
            found = await ask(
                teacher, slimplm.Rewrite, template_of(slimplm.PROMPTS["rewrite"]).format_messages(**values)
            )
        if found is None or not (found.questions or found.claims):
            return dropped("no annotation" if teacher is None else "a reply that cannot be read")
        return row(id=question.id, question=question.question, draft=said, target=target_text(found))

    return label


def annotation(fields: Mapping[str, Any], claims: str) -> slimplm.Rewrite | None:
    """Return the annotation of a row in the form of SlimPLM's released files; None if it has none.

    A record without a query has its own text for one, unless it needs no search.

    Args:
        fields: The row.
        claims: The field of the claims; the searches of the question itself are in `questions`.
    """
    said, asked = fields.get(claims), fields.get("questions")
    if not (isinstance(said, list) and isinstance(asked, list)):
        return None
    return slimplm.Rewrite.model_construct(
        questions=_records(asked, "question", "searchWord"), claims=_records(said, "claim", "query")
    )


def _records(listed: Sequence[Any], text: str, query: str) -> list[slimplm.Searched]:
    found = []
    for one in listed:
        said = " ".join(str(one.get(text) or "").split()) if isinstance(one, Mapping) else ""
        if said:
            searched = one.get("needSearch") is not False
            asked = " ".join(str(one.get(query) or said).split())
            found.append(slimplm.Searched.model_construct(text=said, needs_search=searched, query=asked))
    return found


KINDS: Mapping[str, Callable[[LabelSettings, Mapping[str, Any]], Label]] = {
    "judge": judge,
    "rewriter": rewriter,
    "filter": context_filter,
    "needed": needed,
}
"""The labellers by kind; each takes the settings and the opened models by role."""


def make_labels(
    settings: LabelSettings,
    folder: Path,
    *,
    shard: str = "",
    cache: Path | None = None,
    concurrency: int = 16,
    given: Mapping[str, Any] | None = None,
    quiet: bool = False,
) -> Summary:
    """Label a data set's questions, or resume, and return how it ended.

    The arguments are those of `evaluate`; `given` holds models by role (`proxy`, `teacher`, `generator`, `scorer`) as objects.

    Raises:
        UsageError: A setting is wrong, or the folder holds other labels.
    """
    if settings.kind not in KINDS:
        raise UsageError(f"no labels of the kind {settings.kind!r}; choose one of: {', '.join(KINDS)}")
    form = None if open_dataset(settings.data).name else Format("rows", "Rows of any data set.", _read_any)
    data = open_dataset(settings.data, form=form, keeps_fields=True)
    questions = select(data, limit=settings.limit, shard=shard)
    plain = {name: value for name, value in asdict(settings).items() if value not in ("", None, {})}
    with Run(shard_folder(folder, shard), plain, cache) as run:
        specs = {role: spec for role, spec in settings.models.items() if role != "scorer"}
        models = {role: open_model(spec, run.cache, run.closing) for role, spec in specs.items()}
        labeller = FunctionSystem(settings.kind, KINDS[settings.kind](settings, {**models, **(given or {})}))
        return run.conduct(run.ask(questions, [labeller], concurrency=concurrency, quiet=quiet))


def _read_any(row: Row) -> Sequence[Question]:
    """Read a row by its own fields: released files mix data sets, and rows without answers."""
    try:
        return list(format_of(row).read(row))
    except UsageError:
        return [Question(id=id_of(row), question=row.text("ambiguous_question", *QUESTION))]


def write_labels(folder: Path) -> tuple[Path, Counter[str], Counter[str]]:
    """Write a run's rows as a training file, in the data set's order.

    The larger class of a judge's rows is sampled down to the smaller (SlimPLM, table 5), if the run's settings say
    so.

    Returns:
        The file, how many rows there are by class, and why questions gave none.
    """
    settings = read_settings(shards(folder)[0])
    records = [one for one in read_results(folder) if not one["error"]]
    rows = [one["row"] for one in records if one["row"]]
    dropped = Counter(one["dropped"] for one in records if one["dropped"])
    if settings.get("balance") and settings["kind"] == "judge":
        kept = _balanced(rows, settings.get("seed", 0))
        dropped.update({"to balance known and unknown": len(rows) - len(kept)} if len(kept) < len(rows) else {})
        rows = kept
    path = folder / LABELS
    path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in rows), "utf-8", "replace")
    return path, Counter(map(_class_of, rows)), dropped


def _balanced(rows: Sequence[Record], seed: int) -> list[Record]:
    """Return rows of which as many are known as are not; all if one class has none."""
    classes = [[at for at, one in enumerate(rows) if one["known"] is known] for known in (True, False)]
    least, drawn = min(map(len, classes)), random.Random(seed)
    chosen = {at for one in classes for at in drawn.sample(one, least)}
    return [one for at, one in enumerate(rows) if at in chosen or not chosen]


def _class_of(row: Record) -> str:
    if "known" in row:
        return "known" if row["known"] else "unknown"
    if "needed" in row:
        return "needs retrieval" if row["needed"] else "needs none"
    return "nothing kept" if row.get("spans") == [] else "rows"
