"""LangGraph checkpoints of unfinished questions, written through the run's recorder.

Only the newest checkpoint of a thread is kept, with the writes of its finished tasks: it is for
going on, not for going back. langgraph-checkpoint-sqlite commits every write by itself through
one connection, which costs more than the graphs' own work when many questions are in flight.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)

from ragweave.evaluation.runs.recorder import Recorder

_PUT = "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?)"
_PUT_WRITE = "INSERT OR REPLACE INTO writes VALUES (?, ?, ?, ?, ?, ?, ?)"


class RunCheckpoints(BaseCheckpointSaver[int]):
    """A checkpoint saver for runs; async only."""

    def __init__(self, recorder: Recorder, state: sqlite3.Connection) -> None:
        """Write through `recorder`, read from `state` (a connection of this thread)."""
        super().__init__()
        self._recorder, self._state = recorder, state
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
        listed = self._state.execute(
            "SELECT task, channel, kind, body FROM writes WHERE thread = ? AND checkpoint = ? "
            "ORDER BY task, place",
            (thread, key),
        )
        place: RunnableConfig = {
            "configurable": {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": key}
        }
        return CheckpointTuple(
            place,
            self.serde.loads_typed((kind, body)),
            json.loads(metadata),
            None,
            [
                (task, channel, self.serde.loads_typed((kind, body)))
                for task, channel, kind, body in listed
            ],
        )

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint in the place of the thread's last one."""
        del new_versions
        thread = str(config["configurable"]["thread_id"])
        kind, body = self.serde.dumps_typed(checkpoint)
        kept = json.dumps({"step": metadata["step"], "source": metadata["source"]})
        self._recorder.put(_PUT, [(thread, checkpoint["id"], kind, body, kept)])
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
        """Keep what a finished task wrote."""
        del task_path
        where = config["configurable"]
        thread, key = str(where["thread_id"]), where["checkpoint_id"]
        rows = [
            (
                thread,
                key,
                task_id,
                WRITES_IDX_MAP.get(channel, place),
                channel,
                *self.serde.dumps_typed(value),
            )
            for place, (channel, value) in enumerate(writes)
        ]
        self._recorder.put(_PUT_WRITE, rows)
