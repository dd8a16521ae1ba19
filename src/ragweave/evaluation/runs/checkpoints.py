"""LangGraph checkpoints of unfinished questions, written through the run's recorder.

Only the newest checkpoint of a thread is kept: it is for going on, not for going back. One is
written only after a step that a model was paid in; what a step did before it ended is had again
from the replies, which the call broker keeps call by call. langgraph-checkpoint-sqlite commits every
write by itself, which costs more than the graphs' own work when many questions are in flight.
"""

from __future__ import annotations

import functools
import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)

from ragweave.evaluation.runs.recorder import Recorder, Row

_PUT = "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?)"


class RunCheckpoints(BaseCheckpointSaver[int]):
    """A checkpoint saver for runs; async only."""

    def __init__(self, recorder: Recorder, state: sqlite3.Connection, paid: set[str]) -> None:
        """Make a saver.

        Args:
            recorder: What writes.
            state: What is read from: a connection of this thread.
            paid: Threads that got a reply since their last checkpoint.
        """
        super().__init__()
        self._recorder, self._state, self._paid = recorder, state, paid
        rows = state.execute("SELECT thread FROM checkpoints UNION SELECT thread FROM replies")
        self.unfinished = {row[0] for row in rows}
        """Threads that an earlier process left unfinished."""

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the newest checkpoint of a thread that an earlier process left, or None."""
        thread = str(config["configurable"]["thread_id"])
        if thread not in self.unfinished:
            return None
        row = self._state.execute(
            "SELECT id, kind, body, metadata FROM checkpoints WHERE thread = ?", (thread,)
        ).fetchone()
        if row is None:
            return None
        key, kind, body, metadata = row
        place: RunnableConfig = {
            "configurable": {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": key}
        }
        return CheckpointTuple(
            place,
            self.serde.loads_typed((kind, body)),
            json.loads(metadata),
            None,
            [],
        )

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint in the place of the thread's last one, if a reply came since."""
        del new_versions
        thread = str(config["configurable"]["thread_id"])
        if thread in self._paid:
            self._paid.discard(thread)
            kept = json.dumps({"step": metadata["step"], "source": metadata["source"]})
            make = functools.partial(self._row, thread, checkpoint, kept)
            self._recorder.put(thread, _PUT, make)
        return {
            "configurable": {
                "thread_id": thread,
                "checkpoint_ns": "",
                "checkpoint_id": checkpoint["id"],
            }
        }

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Keep nothing: a step that did not end begins anew, its replies replayed."""

    def _row(self, thread: str, checkpoint: Checkpoint, metadata: str) -> Row | None:
        """Return a checkpoint as it is kept, or None where its state cannot be packed.

        A foreign retriever may leave objects in a passage's metadata. Such a question begins
        anew, its replies replayed.
        """
        try:
            kind, body = self.serde.dumps_typed(checkpoint)
        except TypeError:
            return None
        return (thread, checkpoint["id"], kind, body, metadata)
