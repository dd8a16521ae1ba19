"""Reading a router's training rows, with the first look where there is one, and keeping them.

It is nearly all the time that the training takes; what was read stands under the checkpoints, so
that a stopped training reads no row twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ragweave.tools.files import replacing
from ragweave.tools.knowledge import KnowledgeBase
from ragweave.trained.judge_reading import Encoder
from ragweave.trained.router import RouterRead, read_drafts
from ragweave.trained.router_features import LOOK_K, Found, look_queries
from ragweave.trained.router_words import HashedWords
from ragweave.training.encoders.linear_rows import KEPT, check_finite, room_kept
from ragweave.training.job import CHECKPOINTS, Job
from ragweave.training.rows import RouterRow

_AT_ONCE = 64
_SAVE_EVERY = 512
"""Rows between two times that what was read is kept."""
_LOOK = "look"
"""Key of what was looked at, in the metadata of what was read."""


def pair_of(row: RouterRow, *, drafts: bool) -> tuple[str, str]:
    """Return what of a row is read: the question, and the draft unless drafts are not read."""
    return row["question"], row["draft"] if drafts else ""


def look_of(name: str) -> Callable[[str, str], Found] | None:
    """Return what looks a question and its draft up in a knowledge base; "": None."""
    if not name:
        return None
    retriever = KnowledgeBase.open(name).search_by("bm25", LOOK_K)

    def look(question: str, draft: str) -> Found:
        queries = look_queries(question, draft)
        return {query: retriever.find(query, k) for query, k in queries.items()}

    return look


def looked_at(name: str) -> dict[str, Any]:
    """Return what the card says of the knowledge base that was looked at; "": nothing."""
    if not name:
        return {}
    with KnowledgeBase.open(name) as base:
        return {"look": {"passages": base.manifest.passages}}


def read_router_rows(
    job: Job, rows: Sequence[RouterRow], encoder: Encoder, look: str, *, drafts: bool
) -> RouterRead:
    """Read all rows, in order; what a resumed job has read already is kept.

    Args:
        job: The job; its watch is told of each step.
        rows: Training rows, then held-out ones.
        encoder: What makes vectors of them.
        look: Knowledge base of the first look; "": no look.
        drafts: Whether drafts are read too.

    Raises:
        KeyboardInterrupt: Somebody wants to stop; what was read is kept.
        TrainingStoppedError: The encoder's vectors are not finite, or the disk is full.
    """
    file, mark = job.folder / CHECKPOINTS / KEPT, _mark(look)
    found = read_drafts([], encoder, [] if look else None)
    if job.resume:
        found = _kept(file, found, mark)
    search, saved = look_of(look), len(found.words)
    while len(found.words) < len(rows) and not job.watch.stop_wanted:
        done = len(found.words)
        pairs = [pair_of(one, drafts=drafts) for one in rows[done : done + _AT_ONCE]]
        read = read_drafts(pairs, encoder, search and [search(*pair) for pair in pairs])
        check_finite(read.meaning, job.settings.base)
        found = _joined(found, read)
        job.watch.step(len(found.words), len(rows), None)
        if len(found.words) - saved >= _SAVE_EVERY:
            saved = _keep(file, found, mark)
    if len(found.words) > saved:
        _keep(file, found, mark)
    if job.watch.stop_wanted:
        raise KeyboardInterrupt
    return found


def _mark(look: str) -> str:
    """Return what tells this state of a knowledge base from others: what it holds is read too."""
    if not look:
        return ""
    with KnowledgeBase.open(look) as base:
        made = base.manifest
        return json.dumps([made.generation, made.passages, made.write])


def _joined(first: RouterRead, second: RouterRead) -> RouterRead:
    return RouterRead(
        np.vstack([first.surface, second.surface]),
        np.vstack([first.meaning, second.meaning]),
        [*first.words, *second.words],
    )


def _kept(file: Path, blank: RouterRead, mark: str) -> RouterRead:
    """Return the rows that were read; none where the file is missing, broken or of another form."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy") as stream:
            told = stream.metadata() or {}
            arrays = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
        words = [
            HashedWords(arrays["columns"][first:last], arrays["values"][first:last])
            for first, last in pairwise(arrays["ends"].tolist())
        ]
        found = RouterRead(arrays["surface"], arrays["meaning"], words)
    except (OSError, KeyError, SafetensorError):
        return blank
    same = found.surface.shape[1:] == blank.surface.shape[1:]
    same = same and found.meaning.shape[1:] == blank.meaning.shape[1:]
    return found if same and told.get(_LOOK) == mark else blank


def _keep(file: Path, read: RouterRead, mark: str) -> int:
    """Write the rows, whole or not at all; return how many there are."""
    from safetensors.numpy import save_file

    arrays = {
        "surface": np.ascontiguousarray(read.surface),
        "meaning": np.ascontiguousarray(read.meaning),
        "columns": np.concatenate([one.columns for one in read.words]).astype(np.int64),
        "values": np.concatenate([one.values for one in read.words]),
        "ends": np.cumsum([0, *(len(one.columns) for one in read.words)], dtype=np.int64),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    with room_kept(file), replacing(file) as draft:
        save_file(arrays, draft, {_LOOK: mark})
    return len(read.words)
