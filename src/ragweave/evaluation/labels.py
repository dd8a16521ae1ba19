"""Training labels by the same loop: a labeller is a system whose record holds a training row.

    make_labels(LabelSettings(kind="filter", data="nq:dev.json", measure="strinc"), Path("labels"))
    write_labels(Path("labels"))                        # labels/labels.jsonl

Concurrency, budget, retries, resuming, shards and the reply cache are those of `run.py`. A question that gives no
row has a record with a reason, so that a resumed run does not ask again. The rows, one JSON object a line:

* `filter` (FILCO): `id, question, answers, passages [{id, title, text}], spans [{passage_id, start, end, text,
  score}], source {measure, unit}`; a span is `text == passage[start:end]`, in rank and reading order.
* `judge` (SlimPLM): `id, question, draft, known` (bool), and `answers, match_ratio` if they were compared.
* `rewrite` (SlimPLM): `id, question, draft, target`; the target is the rewriter's reply,
  `<Questions> <Question(…)> <NeedSearch(True)> <Query(…)> … </Questions>`, a line end, `<Claims> <Claim(…)>
  <Search(True)> <Query(…)> … </Claims>`.
* `needed` (SKR): `id, question, needed` (bool: retrieval helps).
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ragweave.datasets import Format, Question, open_dataset, select
from ragweave.datasets.dataset import format_of
from ragweave.datasets.formats import QUESTION
from ragweave.datasets.question import id_of
from ragweave.datasets.rows import Row
from ragweave.errors import UsageError
from ragweave.evaluation import labellers
from ragweave.evaluation.folder import Record, read_results, read_settings, shard_folder, shards
from ragweave.evaluation.labellers import Label, LabelSettings
from ragweave.evaluation.run import Run, Summary, run_async
from ragweave.evaluation.systems import open_model

__all__ = ["KINDS", "LabelSettings", "make_labels", "write_labels"]

KINDS: Mapping[str, Callable[[LabelSettings, Mapping[str, Any]], Label]] = {
    "judge": labellers.judge,
    "rewrite": labellers.rewriter,
    "filter": labellers.context_filter,
    "needed": labellers.needed,
}
"""The labellers by kind; each takes the settings and the opened models by role."""

LABELS = "labels.jsonl"


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

    Args:
        settings: What is labelled.
        folder: The folder of the labels.
        shard: `2/8`: only every eighth question.
        cache: A file of replies that several runs share; None: one of this run.
        concurrency: Questions in flight at once.
        given: Models by role (`proxy`, `teacher`, `answer`, `scorer`) and a `retriever` as objects.
        quiet: Whether there is no progress bar.

    Raises:
        UsageError: A setting is wrong, or the folder holds other labels.
    """
    if settings.kind not in KINDS:
        raise UsageError(f"no labels of the kind {settings.kind!r}; choose one of: {', '.join(KINDS)}")
    form = None if open_dataset(settings.data).name else Format("rows", "Rows of any data set.", _read_any)
    data = open_dataset(settings.data, form=form, keeps_fields=True)
    questions = select(data, limit=settings.limit, shard=shard)
    plain = {name: value for name, value in asdict(settings).items() if value not in ("", None, {})}

    async def work(run: Run) -> Summary:
        async with AsyncExitStack() as stack:
            models = {
                role: open_model(spec, run.cache, stack) for role, spec in settings.models.items() if role != "scorer"
            }
            label = KINDS[settings.kind](settings, {**models, **(given or {})})
            return await run.ask(questions, [_Labeller(settings.kind, label)], concurrency=concurrency, quiet=quiet)

    with Run(shard_folder(folder, shard), plain, cache) as run:
        return run_async(work(run))


@dataclass
class _Labeller:
    name: str
    label: Label

    async def __call__(self, question: Question) -> Record:
        return await self.label(question)


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
