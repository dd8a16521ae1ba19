"""Reading a router's training rows, with the first look where there is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ragweave.tools.knowledge import open_knowledge_base
from ragweave.trained.judge_reading import Encoder
from ragweave.trained.router import RouterRead, read_drafts
from ragweave.trained.router_features import LOOK_K, Found, look_queries
from ragweave.trained.router_words import HashedWords
from ragweave.training.encoders.kept_rows import Rows, read_once
from ragweave.training.job import Job
from ragweave.training.rows import RouterRow

_AT_ONCE = 64


def pair_of(row: RouterRow, *, drafts: bool) -> tuple[str, str]:
    """Return what of a row is read: the question, and the draft unless drafts are not read."""
    return row["question"], row["draft"] if drafts else ""


def look_of(name: str) -> Callable[[str, str], Found] | None:
    """Return what looks a question and its draft up in a knowledge base; "": None."""
    if not name:
        return None
    retriever = open_knowledge_base(name).as_retriever(LOOK_K, "bm25")

    def look(question: str, draft: str) -> Found:
        queries = look_queries(question, draft)
        return {query: retriever.find(query, k) for query, k in queries.items()}

    return look


def looked_at(name: str) -> dict[str, Any]:
    """Return what the card says of the knowledge base that was looked at; "": nothing."""
    if not name:
        return {}
    with open_knowledge_base(name) as base:
        return {"look": {"passages": len(base)}}


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
    search = look_of(look)

    def read(part: slice) -> Rows:
        pairs = [pair_of(one, drafts=drafts) for one in rows[part]]
        return _arrays(read_drafts(pairs, encoder, search and [search(*pair) for pair in pairs]))

    blank = _arrays(read_drafts([], encoder, [] if look else None))
    return _of_arrays(read_once(job, len(rows), _AT_ONCE, read, blank, _mark(look)))


def _mark(look: str) -> str:
    """Return what tells this state of a knowledge base from others: what it holds is read too."""
    if not look:
        return ""
    with open_knowledge_base(look) as base:
        return base.state


def _arrays(read: RouterRead) -> Rows:
    """Return the rows as arrays; the words of all rows one behind the other, and their numbers."""
    words = read.words
    return {
        "surface": read.surface,
        "meaning": read.meaning,
        "sizes": np.asarray([len(one.columns) for one in words], dtype=np.int64),
        "columns": np.concatenate([np.zeros(0, np.int64), *(one.columns for one in words)]),
        "values": np.concatenate([np.zeros(0), *(one.values for one in words)]),
    }


def _of_arrays(rows: Rows) -> RouterRead:
    ends = np.cumsum([0, *rows["sizes"].tolist()])
    words = [
        HashedWords(rows["columns"][first:last], rows["values"][first:last])
        for first, last in pairwise(ends.tolist())
    ]
    return RouterRead(rows["surface"], rows["meaning"], words)
