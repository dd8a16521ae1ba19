"""The checkpointers that the docs name: LangGraph's own conformance suite, and a method's thread on each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from tests import postgres_server

from ragweave import build_graph
from ragweave.testing import Record, RecordingRetriever, ScriptedModel


async def savers(kind: str, folder: Path) -> AsyncIterator[Any]:
    """Open a checkpointer."""
    if kind == "memory":
        yield InMemorySaver()
    elif kind == "sqlite":
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(str(folder / "threads.sqlite")) as saver:
            yield saver
    else:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

        with postgres_server.postgres() as url:
            async with AsyncPostgresSaver.from_conn_string(url.replace("+psycopg", "")) as saver:
                await saver.setup()
                yield saver


@pytest.mark.loopback
@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_it_conforms_and_stores_a_thread(kind: str, tmp_path: Path) -> None:
    if kind == "postgres" and postgres_server.binaries() is None:
        pytest.skip("needs PostgreSQL with pgvector")
    async for saver in savers(kind, tmp_path):

        @checkpointer_test(name=kind)
        async def checkpointer(saver: Any = saver) -> AsyncIterator[Any]:
            yield saver

        report = await validate(checkpointer)
        assert report.passed_all_base(), report.to_dict()
        retriever = RecordingRetriever()
        graph = build_graph("concat", model=ScriptedModel(script=["Ada"]), retriever=retriever, checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "alden"}}
        out = await graph.ainvoke({"question": "Who built the bridge at Alden?"}, config)
        state = await graph.aget_state(config)
        assert (state.values["answer"], state.values["passages"]) == ("Ada", out["passages"])


def test_edited_passages_are_what_a_thread_answers_from() -> None:
    record = Record()
    config: Any = {"configurable": {"thread_id": "alden"}}
    model = ScriptedModel(script=["Ada"]).recording(record)
    graph = build_graph("concat", model=model, retriever=RecordingRetriever(), checkpointer=InMemorySaver())
    graph.invoke({"question": "Who built the bridge at Alden?"}, config)
    before = next(point for point in graph.get_state_history(config) if point.next == ("concat",))
    edited = {"page_content": "Ida Holm built the bridge at Alden.", "metadata": {"title": "Bridge"}}  # Studio's form
    out = graph.invoke(None, graph.update_state(before.config, {"passages": [edited]}))
    assert [doc.page_content for doc in out["passages"]] == ["Ida Holm built the bridge at Alden."]
    assert "Ida Holm" in record.calls[-1].text
    assert "Ada Brenner" not in record.calls[-1].text
