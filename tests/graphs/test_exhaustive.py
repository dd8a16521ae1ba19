"""Exhaustive reading: what it counts, its budget, its cache, resuming, and which questions are sent to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.exhaustive import POINT, QUESTIONS, documents, exact, is_right
from langchain_core.documents import Document
from langgraph.checkpoint.memory import InMemorySaver
from tests.quotes import check_citations

from ragweave import KnowledgeBase, build_graph
from ragweave.graphs.watch import Watch
from ragweave.nodes.route import asks_about_all
from ragweave.testing import MethodTests, ModelCall, ScriptedModel
from ragweave.tools.replies import ReplyCache, asking

STONE, LONG = QUESTIONS[:2]


class TestExhaustive(MethodTests):
    method = "exhaustive"
    question = "How many cards mention a bridge?"
    other_question = "How many cards mention a quarry?"
    answer = "4 (read 8 passages that a search found)"

    def reply(self, call: ModelCall) -> str:
        if call.node == "plan_reading":
            return json.dumps({"operation": "count", "condition": "Does it mention a bridge?"})
        return "Yes" if "bridge" in call.text.partition("<passage")[2].partition("</passage>")[0].lower() else "No"


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    with KnowledgeBase.create(tmp_path_factory.mktemp("kb") / "kb", settings={"embedding": None}) as kb:
        kb.add(documents())
        yield kb


def ask(kb: KnowledgeBase, question: Any = STONE, script: Any = None, **options: Any) -> tuple[dict[str, Any], Any]:
    model = ScriptedModel(script=script or exact(question))
    graph = build_graph("exhaustive", model=model, retriever=kb.as_retriever(), **options)
    return graph.invoke({"question": question.text}, {"max_concurrency": 1}), model


def test_questions_over_sixty_documents_have_exact_answers(kb: KnowledgeBase) -> None:
    wrong = [question.text for question in QUESTIONS if not is_right(ask(kb, question)[0]["answer"], question.gold())]
    assert wrong == []


def test_each_part_of_the_answer_cites_the_documents_that_it_comes_from(kb: KnowledgeBase) -> None:
    out, _ = ask(kb, QUESTIONS[7], citations=True)
    check_citations(out["answer"], out["passages"], out["citations"])
    cited = {citation["text"]: " ".join(quote["text"] for quote in citation["quotes"]) for citation in out["citations"]}
    assert len(cited) == 13
    assert all(name in text for name, text in cited.items())
    assert sum("wood" in text for text in cited.values()) > 7


def test_what_the_condition_leaves_out_is_asked_with_the_question() -> None:
    cards = {"Press 4 stood still all day.": "Yes", "Saw 3 worked as it should.": "No"}
    question, condition = "Which machines were out of order?", "Is it about a machine?"

    def asked(question: str, **form: str) -> tuple[str, str]:
        def reply(call: ModelCall) -> str:
            if call.node == "plan_reading":
                return json.dumps({"operation": "list", "condition": condition, **form})
            text, meets = next((text, meets) for text, meets in cards.items() if text in call.text)
            return json.dumps({"meets": meets if question in call.text else "Yes", "names": [text], "values": []})

        model = ScriptedModel(script=reply)
        out = build_graph("exhaustive", model=model).invoke({"question": question, "passages": [*cards]})
        return out["answer"], model.calls[1].text

    answer, prompt = asked(question)
    assert answer == "Press 4 stood still all day. (read 2 of 2 documents)"
    assert prompt.index(question) < prompt.index(condition)
    for decided_by_code in ({"compare": ">", "limit": "2"}, {"operation": "max"}):
        assert question not in asked(question, **decided_by_code)[1]


@pytest.mark.parametrize(
    ("form", "noted", "answer"),
    [
        ("sum", [("Order 1234", "50 EUR"), ("Order 1235", "")], "50 euro, 1 unreadable"),
        ("group", [("Ada", "Ward 1"), ("Bo", "")], "Ward 1: 1, 1 unreadable"),
        ("count > 20", [("Order 1234", "50 EUR"), ("Order 1235", "")], "1, 1 unreadable"),
        ("count", [("Order 1234", "50 EUR"), ("Order 1235", "")], "2"),
        ("count > 0", [("Bill", "$40"), ("Credit", "-$15"), ("Credit", "(€200)")], "1"),
        ("list > EUR 10", [("A", "CHF 20"), ("B", "EUR 30")], "B, 1 unreadable"),
        ("count = paid", [("A", "paid"), ("B", "unpaid"), ("C", "unpaid")], "1"),
        ("max", [("Alden; Verra", "100 m; 300 m"), ("Sorre", "300 metres")], "300 metres (Verra, Sorre)"),
        ("max", [("Alden; Verra", "300 m"), ("", "300 m")], "300 m (Alden, document 2)"),
        ("list > 2", [("Elm; Oak", "1 year; 3 years"), ("Ash; Fir", "3 years"), ("", "3")], "Oak, Ash, Fir, 3"),
        ("group", [("Ada", "A+"), ("Bo", "A-"), ("Cy", "a-."), ("Di", "A")], "A-: 2, A+: 1, A: 1"),
        ("list", [("Order 1234", ""), ("", "")], "Order 1234, document 2"),
    ],
)
def test_findings_are_added_up(form: str, noted: list[tuple[str, str]], answer: str) -> None:
    operation, compare, limit = (*form.split(" ", 2), "none", "")[:3]
    task = {"operation": operation, "condition": "Is it one?", "name": "its name", "value": "its value"}

    def reply(call: ModelCall) -> str:
        if call.node == "plan_reading":
            return json.dumps({**task, "compare": compare, "limit": limit})
        names, values = next(pair for number, pair in enumerate(noted) if f"Text {number}." in call.text)
        fields = {"names": [*filter(None, names.split("; "))], "values": [*filter(None, values.split("; "))]}
        return json.dumps({"meets": "Yes", **fields})

    passages = [f"Text {number}." for number in range(len(noted))]
    graph = build_graph("exhaustive", model=ScriptedModel(script=reply))
    found = graph.invoke({"question": "How many?", "passages": passages})["answer"]
    assert found.replace(f" (read {len(noted)} of {len(noted)} documents", "")[:-1] == answer


@pytest.mark.parametrize("limit", [{"max_documents": 12}, {"max_calls": 13}])
def test_a_budget_reads_what_a_search_finds_and_says_so(kb: KnowledgeBase, limit: dict[str, int]) -> None:
    out, model = ask(kb, QUESTIONS[3], **limit)
    assert len(model.calls) == 13
    assert sum("Letter" in call.text for call in model.calls) >= 10
    assert out["answer"] == "2 (read 12 of 60 documents)"
    assert out["truncated"]


def test_a_filter_holds(kb: KnowledgeBase) -> None:
    model = ScriptedModel(script=exact(LONG))
    chosen = kb.as_retriever(filter={"title": ["Inspection report 1", "Inspection report 2"]})
    out = build_graph("exhaustive", model=model, retriever=chosen).invoke({"question": LONG.text})
    assert out["answer"] == "1 (read 2 of 2 documents)"


def test_documents_that_cannot_be_read_are_counted(kb: KnowledgeBase) -> None:
    def reply(call: ModelCall) -> str:
        if 'title="Inspection report 2"' in call.text:
            return "I like bridges."
        return exact(LONG)(call).replace("228 metres", f"{'9' * 400} metres")

    out, _ = ask(kb, LONG, reply)
    assert out["answer"] == f"{LONG.gold() - 3} (read 60 of 60 documents, 3 unreadable)"
    nothing, _ = ask(kb, LONG, lambda call: exact(LONG)(call) if call.node == "plan_reading" else "Bridges!")
    assert nothing["answer"] == "Unknown"


def test_long_documents_are_read_in_part_and_the_answer_says_so(tmp_path: Path) -> None:
    with KnowledgeBase.create(tmp_path / "kb", settings={"embedding": None}) as kb:
        kb.add(Document("A bridge of grey stone. " * 400, metadata={"title": "Inspection report 1"}))
        out, _ = ask(kb, prompt_tokens=900)
    assert out["answer"] == "1 (read 1 of 1 documents, 1 only in part)"


def test_a_cache_reads_only_new_documents(kb: KnowledgeBase, tmp_path: Path) -> None:
    model = ScriptedModel(script=exact(STONE))
    cached = ReplyCache(tmp_path / "replies.sqlite").attach(model, "scripted")
    with KnowledgeBase.create(tmp_path / "kb", settings={"embedding": None}) as own:
        for docs, calls in ((documents()[:5], 6), ([], 6), (documents()[5:7], 8)):
            own.add(docs)
            with asking():
                build_graph("exhaustive", model=cached, retriever=own.as_retriever()).invoke({"question": STONE.text})
            assert len(model.calls) == calls


def test_a_run_resumes_at_the_documents_that_are_left(kb: KnowledgeBase) -> None:
    failing = [True]

    def reply(call: ModelCall) -> str:
        if 'title="Letter 7"' in call.text and failing:
            failing.pop()
            raise RuntimeError("the model is gone")
        return exact(STONE)(call)

    model, config = ScriptedModel(script=reply), {"configurable": {"thread_id": "1"}, "max_concurrency": 1}
    graph = build_graph("exhaustive", model=model, retriever=kb.as_retriever(), checkpointer=InMemorySaver())
    with pytest.raises(RuntimeError, match="the model is gone"):
        graph.invoke({"question": STONE.text}, config)
    out = graph.invoke(None, config)
    assert out["answer"] == f"{STONE.gold()} (read 60 of 60 documents)"
    assert len(model.calls) == 1 + 60 + 1


def test_questions_about_everything_are_told_from_others(kb: KnowledgeBase) -> None:
    assert [question.text for question in QUESTIONS if not asks_about_all(question.text, kb)] == []
    assert [text for text in POINT if asks_about_all(text, kb)] == []


def test_concat_pf_and_adaptive_send_questions_about_everything_there(kb: KnowledgeBase) -> None:
    def nodes(question: str, method: str = "concat_pf", **options: Any) -> list[str]:
        model = ScriptedModel(script=lambda call: exact(STONE)(call) if "read" in call.node else "Ada")
        build_graph(method, model=model, retriever=kb.as_retriever(), **options).invoke({"question": question})
        return [call.node for call in model.calls]

    assert nodes(STONE.text, collection="auto").count("read_document") == 60
    assert nodes(STONE.text, "adaptive", collection="auto").count("read_document") == 60
    assert nodes(STONE.text) == nodes(POINT[0], collection="auto") == ["concat"]


@pytest.mark.parametrize(
    ("question", "sql", "answer"),
    [
        ("How many towns have a ferry?", "SELECT count(*) FROM towns WHERE ferry = 'yes'", "2"),
        ("How many letters mention a ferry?", "NONE", "1 (read 6 of 6 documents)"),
    ],
)
def test_tables_answer_what_they_have(tmp_path: Path, question: str, sql: str, answer: str) -> None:
    def reply(call: ModelCall) -> str:
        plan = json.dumps({"operation": "count", "condition": "Is it a letter about a ferry?"})
        reads = "Yes" if "Dear council" in call.text else "No"
        return {"write": sql, "word": "2", "plan_reading": plan, "read_document": reads}.get(call.node, "Nonsense")

    (tmp_path / "towns.csv").write_text("town,ferry\nAlden,yes\nVerra,yes\nOsk,no\nSorre,no\n", "utf-8")
    (tmp_path / "letter-1.txt").write_text("Dear council, we want a ferry.", "utf-8")
    (tmp_path / "letter-2.txt").write_text("To the harbour: we want a bridge.", "utf-8")
    with KnowledgeBase.create(tmp_path / "kb", settings={"embedding": None}) as kb:
        kb.index_paths([tmp_path / "towns.csv", *tmp_path.glob("*.txt")])
        graph = build_graph(
            "concat_pf", model=ScriptedModel(script=reply), retriever=kb.as_retriever(), collection="auto"
        )
        assert graph.invoke({"question": question})["answer"] == answer


async def test_progress_says_how_many_documents_have_been_read(kb: KnowledgeBase) -> None:
    graph = build_graph("exhaustive", model=ScriptedModel(script=exact(STONE)), retriever=kb.as_retriever())
    lines: list[str] = []
    await Watch().follow(graph, {"question": STONE.text}, lines.append)
    assert {"read_document 0 of 60 …", "read_document 59 of 60 …"} <= {*lines}
