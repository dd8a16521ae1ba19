"""Making a file of labels: what is done is read back, what is left is made, nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ragweave.errors import ModelError, UsageError
from ragweave.training.labels.finish import Labelled, finished, write_out
from ragweave.training.labels.maker import Labeler
from ragweave.training.labels.partial import LabelJournal
from ragweave.training.labels.sitting import LabelConfig, OnProgress
from ragweave.training.labels.source import Source
from ragweave.training.labels.stream import Stream


def make_labels(
    source: Source,
    labeler: Labeler,
    out: str | Path,
    *,
    limit: int | None = None,
    skip_bad: bool = False,
    config: LabelConfig | None = None,
    on_progress: OnProgress = lambda _done, _total, _failed: None,
) -> Labelled:
    """Make training rows of a source's questions: `out`, whole, and `out.report.json` beside it.

    What is made stands in `out.partial` at once; a labelling that was stopped or killed goes on
    from there and makes no model call twice, but for those that were in flight.

    Args:
        source: The questions.
        labeler: What makes the rows.
        out: The file to write, JSON lines (`.gz` too).
        limit: Only the first so many questions.
        skip_bad: Leave out rows that cannot be labelled, counted, instead of refusing them.
        config: Concurrency, and what becomes of failures.
        on_progress: Called with how far it is.

    Raises:
        UsageError: A row cannot be labelled (the text names file and line), nothing can, or the
            files that stand there were made with other settings.
        ModelError: Model calls failed; the rest is kept and the text says how to go on.
        TrainingStoppedError: The file cannot be written; what is kept goes on.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"--limit must be at least 1, not {limit}")
    target = Path(out)
    config = config or LabelConfig()
    settings = {
        "labels": labeler.role,
        "source": source.hash or source.hub,
        "name": source.name,
        **({"fields": dict(source.settings)} if source.settings else {}),
        **({"limit": limit} if limit else {}),
        **labeler.settings(),
    }
    done = finished(target, settings, skip_bad=skip_bad)
    if done is not None:
        return done
    stream = Stream(source, labeler, config, on_progress, limit)
    stream.survey(skip_bad=skip_bad)
    with LabelJournal(target, settings) as journal:
        _run(stream.run(journal))
        _check_failed(journal, config)
        return write_out(target, settings, labeler, journal, stream.bad, stream.total)


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end, in a thread of its own where a loop is running already (notebooks)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
        return
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()


def _check_failed(journal: LabelJournal, config: LabelConfig) -> None:
    failed = [one.message for _, one in sorted(journal.entries.items()) if one.kind == "failed"]
    if failed and not config.drop_failed:
        raise ModelError(
            f"{len(failed)} of {len(journal.entries)} rows failed, the first with {failed[0]}; "
            f"the others are kept in {journal.path}: the same command with --retry-failed tries "
            "them again, with --drop-failed leaves them out"
        )
