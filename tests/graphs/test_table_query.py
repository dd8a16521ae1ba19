"""Table query: a SELECT in the place of a search."""

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from ragweave import build_graph
from ragweave.testing import MethodTests
from ragweave.testing.scripted import CARDS, Record, ScriptedModel
from ragweave.tools.knowledge.tables import Tables
from ragweave.tools.retrieval.base import PassageRetriever

BRIDGES = [
    Document(
        f"name: {name}\nstate: {state}\nlength: {length}",
        id=f"b{line}",
        metadata={
            "source": "/docs/bridges.csv",
            "table": 1,
            "line": line,
            "name": name,
            "state": state,
            "length": length,
        },
    )
    for line, (name, state, length) in enumerate(
        [("Alden", "open", "120 m"), ("Verra", "closed", "80 m"), ("Osk", "Open", "n/a"), ("Norhaven", "open", "long")]
    )
]


class Bridges:
    """A collection of rows."""

    def tables(self) -> Tables:
        return Tables([[row] for row in BRIDGES])


class Shelf(PassageRetriever):
    """Finds cards, and knows the bridges' table."""

    def _find(self, query: str, k: int) -> list[Document]:
        return list(CARDS[:k])


class TestTableQuery(MethodTests):
    method = "table_query"
    question = "How many bridges are open?"
    other_question = "How many bridges are closed?"
    answer = "3"
    replies = {
        "write": "```sql\nSELECT count(*) FROM bridges WHERE state = 'open'\n```",
        "word": "3",
        "answer": "Unknown",
    }
    arguments = {"retriever": Shelf(collection=Bridges())}

    def test_any_retriever_will_do(self) -> None:
        pytest.skip("without a knowledge base it is Concat: see TestTableQueryWithoutTables")

    def test_the_rows_are_the_citation(self) -> None:
        out = self.run(Record())
        result, *rows = out["passages"]
        assert result.page_content == "count(*)\n3\nComputed from 3 rows of bridges."
        assert [doc.id for doc in rows] == ["b0", "b2", "b3"]

    @pytest.mark.parametrize(
        "sql",
        [
            "```sql\n-- Select the open ones; don't count others\nSELECT count(*) FROM bridges WHERE state = 'open';\n```",
            "I select from bridges:\nWITH RECURSIVE own(n) AS (SELECT 1 FROM bridges WHERE state = 'open')\nSELECT sum(n) FROM own",
            "The query: SELECT count(*) FROM bridges WHERE state = 'open' OR name = 'a; b'",
        ],
    )
    def test_a_query_is_read_whole(self, sql: str) -> None:
        record = Record()
        assert self.run(record, script={"write": sql, "word": "3"})["passages"][0].page_content.split("\n")[1] == "3"
        assert [call.node for call in record.calls] == ["write", "word"]

    def test_an_error_goes_back_once_then_the_question_is_searched_for(self) -> None:
        record = Record()
        out = self.run(record, script={"write": "SELECT colour FROM bridges", "answer": "Ada Brenner"})
        assert [call.node for call in record.calls] == ["write", "write", "answer"]
        assert "no such column: colour" in record.calls[1].text
        assert out["answer"] == "Ada Brenner"

    def test_a_text_that_no_row_has_goes_back_once_and_then_counts_as_none(self) -> None:
        record, sql = Record(), "SELECT count(*) FROM bridges WHERE state = 'shut'"
        assert self.run(record, script=[sql, sql, "0"])["answer"] == "0"
        assert "No state is 'shut'; there are: open, closed" in record.calls[1].text

    def test_a_number_that_the_result_does_not_have_is_not_the_answer(self) -> None:
        assert self.run(Record(), script={**self.replies, "word": "There are 4 open bridges."})["answer"] == "3"

    @pytest.mark.parametrize("word", ["Of the 11 bridges, 11 are open.", "The bridges of the 13 are open."])
    def test_a_long_wording_has_the_values_too(self, word: str) -> None:
        given = {"question": "How many of the 11 bridges are open, of 13 in all?", "answer_type": "long"}
        assert self.run(Record(), given=given, script={**self.replies, "word": word})["answer"] == "3"
        word = "Of the 11 bridges, 3 are open."
        assert self.run(Record(), given=given, script={**self.replies, "word": word})["answer"] == word

    def test_a_wording_may_turn_a_row_around(self) -> None:
        sql, word = "SELECT length, name FROM bridges WHERE name = 'Alden'", "Alden has 120 m."
        script = {"write": sql, "word": word}
        assert (
            self.run(Record(), given={"question": "How long?", "answer_type": "long"}, script=script)["answer"] == word
        )

    def test_values_that_are_not_numbers_are_named(self) -> None:
        out = self.run(Record(), script={"write": "SELECT max(length_number) FROM bridges", "word": "120"})
        assert "1 values of length_number" in out["passages"][0].page_content

    def test_no_fitting_table_leads_to_a_search(self) -> None:
        assert self.run(Record(), script={"write": "NONE", "answer": "Ada Brenner"})["answer"] == "Ada Brenner"


class TestTableQueryWithoutTables(MethodTests):
    method = "table_query"
    replies = {"answer": "Ada Brenner"}


class OfPets(Embeddings):
    """Knows that budgies are birds."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        is_bird = "birds" in text or "budgies" in text
        return [float(is_bird), float(not is_bird)]


@pytest.mark.parametrize(("question", "embeddings"), [("How many birds?", None), ("How many budgies?", OfPets())])
def test_of_many_tables_those_nearest_to_the_question_are_shown(question: str, embeddings: Embeddings | None) -> None:
    cells = {f"column {number}": "x" * 40 for number in range(40)}
    rows = [
        [Document("row", id=name, metadata={"source": f"/docs/{name}.csv", "table": 1, **cells})]
        for name in ("cats", "dogs", "fish", "frogs", "birds")
    ]
    record, tables = Record(), Tables(rows)
    collection = type("Animals", (), {"tables": lambda _self: tables})()
    model = ScriptedModel(script={"write": "SELECT count(*) FROM birds", "word": "1"}).recording(record)
    shelf = Shelf(collection=collection, embeddings=embeddings)
    graph = build_graph("table_query", model=model, retriever=shelf)
    assert graph.invoke({"question": question})["answer"] == "1"
    assert "CREATE TABLE birds" in record.calls[0].text and "CREATE TABLE frogs" not in record.calls[0].text
