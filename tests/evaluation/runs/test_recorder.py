"""What is written is written once and whole, by one process or several."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sqlite3
from pathlib import Path
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from tests.evaluation.towns import planned, records
from tests.scripted import ScriptedChat

from ragweave.evaluation.runs import RunConfig, evaluate
from ragweave.evaluation.runs.recorder import Recorder
from ragweave.tools.journal import Journal, line_of, repair

PUT = "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?)"


def row(thread: str, key: str) -> tuple[str, str, str, bytes, str]:
    return (thread, key, "msgpack", b"", "{}")


def kept(path: Path) -> list[tuple[str, str]]:
    state = sqlite3.connect(path)
    found = state.execute("SELECT thread, id FROM checkpoints ORDER BY thread").fetchall()
    state.close()
    return found


def test_only_what_is_still_needed_is_made_and_written(tmp_path: Path) -> None:
    made: list[str] = []

    def make(thread: str, key: str) -> Any:
        made.append(f"{thread}{key}")
        return row(thread, key)

    async def write() -> None:
        with Recorder(tmp_path / "results", tmp_path / "state.sqlite") as recorder:
            for key in "123":
                recorder.put("a", PUT, lambda key=key: make("a", key))
            recorder.put("b", PUT, lambda: make("b", "1"))
            recorder.put("c", PUT, lambda: None)
            await recorder.append("b", b"done\n", forget=True)

    asyncio.run(write())
    assert made == ["a3"]
    assert kept(tmp_path / "state.sqlite") == [("a", "3")]
    assert (tmp_path / "results").read_text("utf-8") == "done\n"


def test_a_checkpoint_is_written_though_nobody_waits_for_it(tmp_path: Path) -> None:
    async def write() -> list[tuple[str, str]]:
        with Recorder(tmp_path / "results", tmp_path / "state.sqlite") as recorder:
            recorder.put("a", PUT, lambda: row("a", "1"))
            for _ in range(500):
                if kept(tmp_path / "state.sqlite"):
                    break
                await asyncio.sleep(0.01)
            return kept(tmp_path / "state.sqlite")

    assert asyncio.run(write()) == [("a", "1")]


def append_many(path: str, name: str) -> None:
    journal = Journal(Path(path))
    journal.open()
    for index in range(100):
        journal.append(b"".join(line_of(f"{name} {index} {n}") for n in range(5)))
    journal.close()


def test_processes_append_to_one_file_in_turn_after_one_was_killed_in_a_line(
    tmp_path: Path,
) -> None:
    path = tmp_path / "results"
    path.write_bytes(b'"whole"\n"half a li')
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=append_many, args=(str(path), name)) for name in "xy"]
    for one in both:
        one.start()
    for one in both:
        one.join()
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert lines[0] == "whole"
    assert sorted(lines[1:]) == sorted(
        f"{name} {index} {n}" for name in "xy" for index in range(100) for n in range(5)
    )
    assert repair(path) == 0


class Counting(BaseRetriever):
    """Notes what it is asked."""

    asked: list[str]

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        self.asked.append(query)
        return [Document(id="1", page_content="The bridge of Varn opened in 1900.")]


def test_a_question_goes_on_from_its_checkpoint_and_searches_nothing_again(
    tmp_path: Path,
) -> None:
    directory = planned(tmp_path, "iter_retgen[k=1,rounds=3]", count=1)
    first, second = Counting(asked=[]), Counting(asked=[])

    async def stop() -> None:
        stopped = asyncio.Event()

        class Stops(ScriptedChat):
            async def _agenerate(self, messages, *args, **kwargs):  # type: ignore[no-untyped-def]
                if len(self.seen) == 1:
                    stopped.set()
                    await asyncio.sleep(60)
                return await super()._agenerate(messages, *args, **kwargs)

        model = {"answer": Stops(replies=["So the answer is 1900"])}
        found: Any = first
        work = asyncio.ensure_future(
            evaluate(directory, RunConfig(), models=model, retriever=found)
        )
        await stopped.wait()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    asyncio.run(stop())
    assert len(first.asked) == 2
    model = {"answer": ScriptedChat(replies=["So the answer is 1900"])}
    found: Any = second
    asyncio.run(evaluate(directory, RunConfig(), models=model, retriever=found))
    assert first.asked[0] not in second.asked
    assert len(records(directory)) == 1
