"""Nothing that a filter forbids is returned, read, named or counted: by no search, tool, method or error, on any engine."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, get_args

import pytest
from langchain_core.documents import Document
from langgraph.store.memory import InMemoryStore
from mcp import Client, MCPError
from starlette.testclient import TestClient
from tests import postgres_server

from ragweave import KnowledgeBase, build_chat, build_graph
from ragweave.errors import RagweaveError, UsageError
from ragweave.names import MethodName
from ragweave.serving.mcp_server import create_server
from ragweave.serving.openai_api import create_app
from ragweave.testing.scripted import ModelCall, Record, ScriptedModel
from ragweave.testing.store import WordEmbeddings
from ragweave.tools.knowledge import ServedKnowledgeBase
from ragweave.tools.knowledge.filters import matches, parse
from ragweave.tools.retrieval import toolkit
from ragweave.tools.retrieval.base import known_of

DEPTS = ["hr", "it", "law"]
PEOPLE = ["Ada Brenner", "Karl Oster", "Mira Voss", "Tom Hale"]
PLACES = ["Alden", "Norhaven", "Verra"]
QUESTION = "When was the bridge at Alden by Ada Brenner of Norhaven repaired, and how many repairs are there?"
MODES = ("auto", "bm25", "dense", "hybrid", "graph")
SECRET = re.compile(r"zq\d{3}x|only_\d{3}|/docs/\w+/\d{3}\.md")
"""What stands in one passage alone: a word, the name of a field, its source."""


class Shelf:
    """A random knowledge base; `docs` are what was added, each with secrets of its own."""

    def __init__(self, kb: KnowledgeBase | ServedKnowledgeBase, rng: random.Random) -> None:
        self.kb, self.docs = kb, dict[str, Document]()
        for number in range(36):
            source = f"/docs/{rng.choice(DEPTS)}/{number // 2:03}.md"
            meta: dict[str, Any] = {
                "dept": rng.choice([rng.choice(DEPTS), rng.sample(DEPTS, 2)]),
                "year": rng.choice([rng.randrange(2018, 2026), str(rng.randrange(2018, 2026)), "soon"]),
                "due": f"202{rng.randrange(3, 6)}-0{rng.randrange(1, 9)}-01",
                "draft": rng.random() < 0.5,
                "title": rng.choice(PEOPLE),
                f"only_{number:03}": 1,
                "source": source,
            }
            for name in rng.sample(["dept", "year", "due", "draft"], rng.randrange(2)):
                del meta[name]
            text = f"{rng.choice(PEOPLE)} of {rng.choice(PLACES)} repaired the bridge at {rng.choice(PLACES)}. zq{number:03}x."
            self.docs[f"id{number:03}"] = Document(text, id=f"id{number:03}", metadata=meta)
        kb.add(self.docs.values(), split=False)

    def hidden(self, chosen: dict[str, Any]) -> list[Document]:
        """Return what a filter forbids, decided from what was written."""
        return [doc for doc in self.docs.values() if not matches(parse(chosen), doc.metadata)]


def secrets_of(docs: list[Document]) -> set[str]:
    return {*SECRET.findall(repr(docs)), *(str(doc.id) for doc in docs)} - {doc.metadata["source"] for doc in docs}


def leaked(value: object, hidden: list[Document]) -> set[str]:
    text = repr(value)
    return {secret for secret in secrets_of(hidden) if secret in text}


def random_filter(rng: random.Random, depth: int = 2) -> dict[str, Any]:
    if depth and rng.random() < 0.3:
        join = rng.choice(["$and", "$or", "$not"])
        parts = [random_filter(rng, depth - 1) for _ in range(rng.randrange(1, 3))]
        return {join: parts[0] if join == "$not" else parts}
    year, day = rng.randrange(2017, 2027), f"2024-0{rng.randrange(1, 9)}-01"
    return rng.choice(
        [
            {"dept": rng.choice(DEPTS)},
            {"dept": {"$nin": rng.sample(DEPTS, 2)}},
            {"folder": f"/docs/{rng.choice(DEPTS)}"},
            {"source": f"/docs/{rng.choice(DEPTS)}/{rng.randrange(18):03}.md"},
            {"year": {rng.choice(["$gt", "$gte", "$lt", "$lte", "$ne"]): year}},
            {"year": {"$gt": year, "$lte": year + 3}, "draft": rng.random() < 0.5},
            {"due": {rng.choice(["$lt", "$gte"]): day}},
            {rng.choice(["draft", "due", "year"]): {"$exists": rng.random() < 0.5}},
            {"year": "soon"},
            {"dept": "nobody"},
        ]
    )


def check_case(shelf: Shelf, rng: random.Random) -> None:
    """Search and read under a random filter."""
    chosen, kb = random_filter(rng), shelf.kb
    hidden, view = shelf.hidden(chosen), kb.view(chosen)
    visible = len(shelf.docs) - len(hidden)
    own = rng.choice([*shelf.docs.values()])
    query = rng.choice([QUESTION, rng.choice(PEOPLE), own.page_content, str(own.id), "zq001x zq002x zq003x"])
    mode = rng.choice(MODES if "bm25" in kb.modes else ("auto", "dense"))
    retriever = view.as_retriever(40, mode)
    retrievers = [retriever]
    with suppress(UsageError):  # no value of the operand's kind
        retrievers.append(kb.as_retriever(40, mode, filter=chosen))
    for searched in retrievers:
        docs = searched.invoke(query)
        assert not leaked(docs, hidden), (chosen, query, mode)
        assert len(docs) <= visible
        assert not leaked(toolkit.around(searched, str(own.id), 3), hidden), (chosen, own.id)
        documents = known_of(searched, "collection").documents()
        assert sorted(str(document[0].id) for document in documents) == sorted(
            shelf.docs.keys() - {doc.id for doc in hidden}
        )
    assert {doc.id for doc in view.passages()} == shelf.docs.keys() - {doc.id for doc in hidden}
    assert len(view) == visible
    shown = [view.fields(), view.values(rng.choice(["dept", "year", "title", "only_003"])), view.values("source")]
    assert not leaked(shown, hidden), chosen
    tables = view.tables()
    results = [tables.run(f"SELECT * FROM {table.name}") for table in tables.tables]
    assert not leaked([tables.tables, results], hidden), chosen
    assert sum(len(result.numbers) for result in results) == visible
    assert {source.key for source in view.sources()} == {doc.metadata["source"] for doc in view.passages()}
    assert all(field.passages <= visible for field in view.fields())
    for tool in view.as_tools():
        asked = {"read": {"ids": [own.id], "messages": []}, "keyword_search": {"keywords": query}}
        arguments = asked.get(tool.name, {"query": query})
        assert not leaked(tool.invoke(arguments), [doc for doc in hidden if doc.id != own.id]), (chosen, tool.name)
    for wrong in ({"only_00": 1}, {"dept": 3}, {str(rng.choice([*own.metadata])): "2024-01-01"}):
        try:
            view.as_retriever(filter=wrong)
        except UsageError as error:
            assert not leaked(str(error).replace(next(iter(wrong)), ""), hidden), (chosen, wrong)


@pytest.fixture(scope="module", params=["folder", "lance", "chroma", pytest.param("pg", marks=pytest.mark.loopback)])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """What opens a new knowledge base of an engine."""
    engine, folder = request.param, tmp_path_factory.mktemp("shelf")
    with ExitStack() as stack:
        if engine == "pg":
            if postgres_server.binaries() is None:
                pytest.skip("no PostgreSQL")
            url = stack.enter_context(postgres_server.postgres())
        elif engine != "folder":
            pytest.importorskip({"lance": "lancedb", "chroma": "chromadb"}[engine])

        def opened(name: str) -> Any:
            if engine == "folder":
                return KnowledgeBase.create(folder / name, embeddings=WordEmbeddings())
            where = url if engine == "pg" else folder
            return stack.enter_context(ServedKnowledgeBase(f"{engine}:{where}#{name}", WordEmbeddings()))

        yield opened


def test_searches_readings_tools_and_errors(place: Any) -> None:
    rng = random.Random(1)
    shelf = Shelf(place("few"), rng)
    for _ in range(60 if isinstance(shelf.kb, KnowledgeBase) else 8):
        check_case(shelf, rng)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(20))
def test_many_bases(place: Any, seed: int) -> None:
    """10,000 cases, most of them in a folder."""
    rng = random.Random(100 + seed)
    shelf = Shelf(place(f"base{seed}"), rng)
    for _ in range(410 if isinstance(shelf.kb, KnowledgeBase) else 30):
        check_case(shelf, rng)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    folder: Path = tmp_path_factory.mktemp("methods")
    return Shelf(KnowledgeBase.create(folder / "kb", embeddings=WordEmbeddings()), random.Random(7))


@pytest.mark.parametrize("name", get_args(MethodName))
def test_methods_and_their_threads(shelf: Shelf, name: str) -> None:
    """A model asks for everything: others' ids, all tools; and a follow-up goes on in the thread."""
    rng = random.Random(name)
    for chosen in ({"dept": rng.choice(DEPTS)}, random_filter(rng)):
        hidden, record = shelf.hidden(chosen), Record()

        def ask(_call: ModelCall) -> str:
            ids = ", ".join(rng.sample([*shelf.docs], 4))
            return rng.choice(
                [
                    f"Search[{rng.choice(PEOPLE)} {rng.choice(PLACES)}]",
                    f'{{"thought": "", "tool": "read", "input": "{ids}"}}',
                    f'{{"thought": "", "tool": "keyword_search", "input": "{rng.choice(PEOPLE)}"}}',
                    f"1. Who is {rng.choice(PEOPLE)}?\n2. Where is #1?",
                    *("Yes", "No", "relevant", "So the answer is Alden.", "[1, 2, 3, 4, 5]", "Unknown"),
                ]
            )

        model = ScriptedModel(script=ask).recording(record)
        retriever = shelf.kb.view(chosen).as_retriever()
        second = {"second_retriever": shelf.kb.view(chosen).as_retriever(mode="bm25")} if name == "crag" else {}
        outputs: list[Any] = []
        with suppress(RagweaveError, LookupError):
            graph = build_graph(name, model=model, retriever=retriever, citations=True, **second)
            outputs.append(graph.invoke({"question": QUESTION}))
            chat = build_chat(name, model=model, retriever=retriever, citations=True, **second)
            first = chat.invoke({"messages": [("user", QUESTION)]})
            outputs.append(chat.invoke({"messages": [*first["messages"], ("user", "And who wrote about it?")]}))
        words = [secret for secret in secrets_of(hidden) if secret.startswith("zq")]
        told = repr(outputs) + repr([call.text for call in record.calls])
        assert not [word for word in words if word in told], chosen


async def test_servers(shelf: Shelf) -> None:
    """Whoever asks for all there is, by every path of OpenAI's protocol and of MCP, gets what the filter lets through."""
    rng, threads = random.Random(3), InMemoryStore()
    ids = [*shelf.docs]
    async with Client(create_server(build_graph("direct", model="extractive"), shelf.kb.as_retriever())) as client:
        uris = [resource.uri for resource in (await client.list_resources()).resources]
    assert len(uris) == len({doc.metadata["source"] for doc in shelf.docs.values()})
    for _ in range(3):
        chosen = random_filter(rng)
        hidden, retriever = shelf.hidden(chosen), shelf.kb.view(chosen).as_retriever(40)
        models: dict[str, Any] = {"model": "extractive", "retriever": retriever, "citations": True}
        app = create_app({"concat": build_chat("concat", **models)}, evidence=retriever.evidence, threads=threads)
        web, shown = TestClient(app), list[Any]()
        for body in ({}, {"stream": True}):
            asked = {"model": "concat", "input": QUESTION, **body}
            shown.append(web.post("/v1/responses", json=asked).text)
        shown += [web.get(f"/v1/sources/{name}?start=0&end=9").json().get("places") for name in ids]
        async with Client(create_server(build_graph("concat", **models), retriever)) as client:
            calls: list[tuple[str, dict[str, Any]]] = [("fetch", {"id": name}) for name in ids]
            for tool, given in [*calls, ("ask", {"question": QUESTION}), ("search", {"query": QUESTION, "k": 20})]:
                result = await client.call_tool(tool, given)
                shown.append((result.content, result.structured_content))
            shown.append((await client.list_resources()).resources)
            for uri in uris:
                with suppress(MCPError):
                    shown.append((await client.read_resource(uri)).contents)
        words = [secret for secret in secrets_of(hidden) if secret.startswith(("zq", "id"))]
        assert not [word for word in words if word in repr(shown)], chosen
        visible = shelf.docs.keys() - {str(doc.id) for doc in hidden}
        assert {name for name in ids if f"zq{name[2:]}x" in repr(shown)} == visible
