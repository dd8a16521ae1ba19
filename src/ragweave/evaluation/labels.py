"""Training labels by the same loop: a labeller is a system whose record holds a training row.

    make_labels(LabelSettings(kind="filter", data="nq:dev.json", measure="strinc"), Path("labels"))
    write_labels(Path("labels"))                        # labels/labels.jsonl

Concurrency, retries, resuming, shards and the reply cache are those of `run.py`. A question without a row has a record with
a reason, so that a resumed run does not ask it again. The rows, one JSON object a line:

* `filter` (FILCO): `id, question, answers, passages [{id, title, text}], spans [{passage_id, start, end, text,
  score}], source {measure, unit}`; a span is `text == passage[start:end]`, in rank and reading order.
* `judge` (SlimPLM): `id, question, draft, known` (bool), `answers, match_ratio`.
* `rewriter` (SlimPLM): `id, question, draft, target`; the target is the rewriter's reply,
  `<Questions> <Question(…)> <NeedSearch(True)> <Query(…)> … </Questions>`, a line end, `<Claims> <Claim(…)>
  <Search(True)> <Query(…)> … </Claims>`.
* `needed` (SKR): `id, question, needed` (bool: retrieval helps).

Sources: Tan et al. 2024 (SlimPLM), section 3.2: a draft is known if it contains more than θ of the right answers; section
3.3 and appendix A: a draft's claims and queries. Wang et al. 2023 (Self-Knowledge Guided Retrieval), section 3.1, by
SlimPLM's released code: a question needs retrieval if the answer with passages has more of the aliases; ties are dropped. Wang et al. 2023 (FILCO),
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
from ragweave.evaluation.folder import Record, dropped, read_results, read_settings, row, shard_folder, shards
from ragweave.evaluation.metrics.answers import name_share
from ragweave.evaluation.metrics.judged import ask
from ragweave.evaluation.run import FunctionSystem, Run, Summary
from ragweave.evaluation.systems import graph_system, open_model, own_passages
from ragweave.graphs import slimplm
from ragweave.graphs.specs import read_system
from ragweave.nodes import read
from ragweave.nodes.prompts import template_of
from ragweave.nodes.segments import split_passages
from ragweave.tools.filters import FILTERS, FilterKind, FilterSettings, Span, filco_task, span_of
from ragweave.tools.knowledge.servers import retriever_of
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

_MAX_DRAFT = 4000
"""Maximum characters of a draft."""


@dataclass(frozen=True, kw_only=True)
class LabelSettings:
    """All settings that labels depend on."""

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
    """For `rewriter`, the field that holds claims; "": the teacher annotates."""
    theta: float = 0.5
    """The share of the right answers that a known draft exceeds (SlimPLM, equation 2)."""
    split_names: bool = False
    """Whether each name of an answer counts as a separate answer, as in SlimPLM's released labels."""
    balance: bool = False
    seed: int = 0
    measure: str = "strinc"
    """A filter (`FILTERS`), or `gold`: the sentences that annotators selected."""
    unit: str = "sentence"
    """The unit that is kept or dropped: `sentence`, or `passage` (FILCO's PSG)."""
    top: int | None = 1
    """Maximum segments kept; None: all above the threshold."""
    threshold: float | None = None
    """None: the filter's own."""
    k: int = 5
    """Passages per question; of its own passages, the gold ones come first."""
    kb: str = ""
    """A knowledge base to search instead of the questions' own passages."""


def match_ratio(draft: str, groups: Sequence[Sequence[str]]) -> float:
    """Return the share of right answers with a name in a draft, 0 to 1 (SlimPLM, equation 2).

    A name only has to be a substring of the draft, both normalised, and may end within a word: this reproduces the
    authors' released labels.
    """
    text = normalize_answer(draft)
    matches = [any(name and name in text for name in map(normalize_answer, group)) for group in groups]
    return sum(matches) / len(matches) if matches else 0.0


def unmatched(groups: Sequence[Sequence[str]]) -> str:
    """Return why drafts cannot be matched with the right answers; "" if they can."""
    if not groups:
        return "no short answer"
    yes_no = all(name.strip().lower() in ("yes", "no") for group in groups for name in group)
    return "a yes or no answer, for which a match ratio says nothing" if yes_no else ""


def _drafts(settings: LabelSettings, models: Mapping[str, Any]) -> Callable[[Question], Awaitable[str]]:
    """Return a function that gives a question's draft, which may be empty: from the proxy, or from a field of the row."""
    if not settings.draft and "proxy" not in models:
        raise UsageError("no model drafts: give --model proxy=SPEC, or --draft FIELD if the rows hold drafts")

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
            return read.cut(read.plain(text_of(reply)), _MAX_DRAFT)


def judge(settings: LabelSettings, models: Mapping[str, Any]) -> Label:
    """Label whether a draft is known; a `proxy` drafts, unless the rows hold drafts."""
    draft_of = _drafts(settings, models)

    async def label(question: Question) -> Record:
        groups = question.names
        if settings.split_names:
            groups = [(name,) for group in groups for name in group]
        if why := unmatched(groups):
            return dropped(why)
        if not (draft := await draft_of(question)):
            return dropped("no draft")
        ratio = match_ratio(draft, groups)
        return row(
            id=question.id,
            question=question.question,
            draft=draft,
            known=ratio > settings.theta,
            answers=[*map(list, groups)],
            match_ratio=round(ratio, 6),
        )

    return label


def needed(settings: LabelSettings, models: Mapping[str, Any]) -> Label:
    """Label whether a question needs retrieval, by the generator without passages and with them."""
    if "generator" not in models:
        raise UsageError("no model answers: give --model generator=SPEC")
    retriever = retriever_of("auto", settings.kb) if settings.kb else own_passages
    specs = ("direct", f"direct[retrieve=true,k={settings.k}]")
    graphs = [graph_system(read_system(spec), {"generator": models["generator"]}, retriever) for spec in specs]

    async def label(question: Question) -> Record:
        if why := unmatched(question.names):
            return dropped(why)
        answers = [(await graph(question))["answer"] for graph in graphs]
        aliases = [alias for names in question.names for alias in names]
        alone, helped = (name_share(answer, aliases) for answer in answers)
        if alone == helped:
            return dropped("as right without passages as with them")
        return row(id=question.id, question=question.question, needed=helped > alone)

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
        answers = [*question.answers, *(name for names in question.parts for name in names)]
        passages = sorted(question.passages, key=lambda doc: doc.id not in question.gold)[: settings.k]
        if searched is not None:
            passages = await searched.ainvoke(question.searched(question.question), k=settings.k)
        if not answers or not passages:
            return dropped("no answer" if not answers else "no passage")
        if settings.measure == "strinc" and question.kind == "yes_no":
            return dropped("yes or no, which no sentence contains")
        return row(
            id=question.id,
            question=question.question,
            answers=answers,
            passages=[task_passage(doc) for doc in passages],
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
    best = kind.best(scores, top=kind.top and settings.top, threshold=settings.threshold)
    return [span_of(segments[at], round(scores[at], 6)) for at in sorted(best)]


def selected(question: Question, passages: Sequence[Document]) -> list[Span]:
    """Return the spans in the gold passages of the sentences that annotators selected."""
    spans: list[Span] = []
    for doc in (doc for doc in passages if doc.id in question.gold):
        places = [(doc.page_content.find(text), text) for text in question.about.get("selected", ())]
        spans += [
            {"passage_id": str(doc.id), "start": start, "end": start + len(text), "text": text, "score": 1.0}
            for start, text in sorted(places)
            if start >= 0
        ]
    return spans


def target_text(rewrite: slimplm.Rewrite) -> str:
    """Return a rewrite as the rewriter's reply; a record that needs no search has an empty query."""

    def shown(records: Sequence[slimplm.Searched], kind: str, mark: str) -> str:
        return " ".join(
            f"<{kind}({_bare(record.text)})> <{mark}({record.needs_search})> <Query({_bare(record.query) * record.needs_search})>"
            for record in records
        )

    questions, claims = shown(rewrite.questions, "Question", "NeedSearch"), shown(rewrite.claims, "Claim", "Search")
    return f"<Questions> {questions} </Questions>\n<Claims> {claims} </Claims>".replace(">  <", "> <")


def _bare(text: str) -> str:
    return " ".join(re.sub(r"[<>]|```|&[lg]t;", " ", text).split())


def rewriter(settings: LabelSettings, models: Mapping[str, Any]) -> Label:
    """Label drafts with their claims and queries: from a `teacher`, or from the rows."""
    draft_of, teacher = _drafts(settings, models), models.get("teacher")
    if teacher is None and not settings.label:
        raise UsageError("no model annotates: give --model teacher=SPEC, or --label FIELD if the rows hold claims")

    async def label(question: Question) -> Record:
        if not (draft := await draft_of(question)):
            return dropped("no draft")
        if teacher is None:
            rewrite = annotation(question.about, settings.label)
        else:
            values = {"question": question.question, "draft": untrusted(draft)}
            rewrite = await ask(
                teacher, slimplm.Rewrite, template_of(slimplm.PROMPTS["rewrite"]).format_messages(**values)
            )
        if rewrite is None or not (rewrite.questions or rewrite.claims):
            return dropped("no annotation" if teacher is None else "a reply that cannot be read")
        return row(id=question.id, question=question.question, draft=draft, target=target_text(rewrite))

    return label


def annotation(fields: Mapping[str, Any], claims: str) -> slimplm.Rewrite | None:
    """Return the annotation of a row in the form of SlimPLM's released files; None if the row has none.

    `claims` is the field of the claims; the searches of the question itself are in `questions`. If a record that needs a
    search has no query, its text is the query.
    """
    listed, questions = fields.get(claims), fields.get("questions")
    if not (isinstance(listed, list) and isinstance(questions, list)):
        return None
    return slimplm.Rewrite.model_construct(
        questions=_records(questions, "question", "searchWord"), claims=_records(listed, "claim", "query")
    )


def _records(items: Sequence[Any], text: str, query: str) -> list[slimplm.Searched]:
    records = []
    for item in items:
        statement = " ".join(str(item.get(text) or "").split()) if isinstance(item, Mapping) else ""
        if statement:
            searched = item.get("needSearch") is not False
            search = " ".join(str(item.get(query) or statement).split())
            records.append(slimplm.Searched.model_construct(text=statement, needs_search=searched, query=search))
    return records


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
    """Label a data set's questions, or resume this, and return how it ended.

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
    """Read a row by its own fields: released files mix data sets and hold rows without answers."""
    try:
        return list(format_of(row).read(row))
    except UsageError:
        return [Question(id=id_of(row), question=row.text("ambiguous_question", *QUESTION))]


def write_labels(folder: Path) -> tuple[Path, Counter[str], Counter[str]]:
    """Write a run's rows as a training file, in the data set's order.

    If the run's settings say so, the larger class of a judge's rows is downsampled to the smaller (SlimPLM, table 5).

    Returns:
        The file, the number of rows by class, and the number of questions without a row by reason.
    """
    settings = read_settings(shards(folder)[0])
    records = [record for record in read_results(folder) if not record["error"]]
    rows = [record["row"] for record in records if record["row"]]
    dropped = Counter(record["dropped"] for record in records if record["dropped"])
    if settings.get("balance") and settings["kind"] == "judge":
        balanced = _balanced(rows, settings.get("seed", 0))
        dropped.update({"to balance known and unknown": len(rows) - len(balanced)} if len(balanced) < len(rows) else {})
        rows = balanced
    path = folder / LABELS
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8", "replace")
    return path, Counter(map(_class_of, rows)), dropped


def _balanced(rows: Sequence[Record], seed: int) -> list[Record]:
    """Return as many known as unknown rows; all rows if one class is empty."""
    classes = [[at for at, row in enumerate(rows) if row["known"] is known] for known in (True, False)]
    least, drawn = min(map(len, classes)), random.Random(seed)
    chosen = {at for places in classes for at in drawn.sample(places, least)}
    return [row for at, row in enumerate(rows) if at in chosen or not chosen]


def _class_of(row: Record) -> str:
    if "known" in row:
        return "known" if row["known"] else "unknown"
    if "needed" in row:
        return "needs retrieval" if row["needed"] else "needs no retrieval"
    return "nothing kept" if row.get("spans") == [] else "rows"
