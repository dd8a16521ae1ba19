"""The contract of a knowledge base, in a folder and on any server."""

import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast
from unittest import SkipTest
from unittest.mock import patch

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from ragweave.errors import UsageError
from ragweave.names import RetrieverName
from ragweave.state.passages import BOXES
from ragweave.tools.citations import cite
from ragweave.tools.knowledge import KnowledgeBase, ServedKnowledgeBase, candidates, graph, place_at

SONG = Document("Tin Harbour is a song by Mara Lind.", id="song", metadata={"title": "Tin Harbour"})
SINGER = Document("Born in Vell in 1961, she taught music.", id="singer", metadata={"title": "Mara Lind"})
LINES = ("salt is white", "pepper is black", "sugar is sweet", "lemon is sour")
_ODD = ("quote ' \" \\ ; --", "橋を建てた 🌉", "x\u2028 {} %s ?", "a\tb\r\nc", "lone \ud83d sign", "nul \0")


class WordEmbeddings(Embeddings):
    """Counts words by their hash, so that texts that share words are near; records what it embeds."""

    def __init__(self, size: int = 64, model: str = "words") -> None:
        self.size, self.model = size, model
        self.embedded: list[str] = []
        self.before: Callable[[], None] = lambda: None
        """Called before each batch of passages."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        self.before()
        self.embedded.extend(texts)
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        vector = [0.01] * self.size
        for word in text.lower().split():
            vector[zlib.crc32(word.strip(".,?!").encode("utf-8", "replace")) % self.size] += 1.0
        return vector


class KnowledgeStoreTests:
    """What every knowledge base must do. Subclass it and say how one is created.

    class TestMine(KnowledgeStoreTests):
        def create(self, embeddings):
            return ServedKnowledgeBase(f"pg:postgresql://127.0.0.1/test#t{next(numbers)}", embeddings)
    """

    def create(self, embeddings: Embeddings | None) -> KnowledgeBase | ServedKnowledgeBase:
        """Return a new, empty knowledge base at each call; without embeddings, if they are None."""
        raise NotImplementedError(f"{type(self).__name__} needs a create method")

    @contextmanager
    def filled(self, embeddings: Embeddings | None = None) -> Iterator[KnowledgeBase | ServedKnowledgeBase]:
        """Make a knowledge base of `LINES`."""
        with self.create(embeddings or WordEmbeddings()) as kb:
            kb.add([Document(line) for line in LINES], "spices")
            yield kb

    def test_a_query_finds_its_passage(self) -> None:
        """The passage comes first, with an id, a score that falls with the rank, and its source."""
        with self.filled() as kb:
            docs = kb.as_retriever(3).invoke("white salt")
            assert docs[0].page_content == "salt is white"
            assert [doc.metadata["rank"] for doc in docs] == [*range(len(docs))]
            scores = [doc.metadata["score"] for doc in docs]
            assert scores == sorted(scores, reverse=True), f"scores rise: {scores}"
            assert len({doc.id for doc in docs}) == len(docs), "ids repeat"
            assert docs[0].metadata["source"] == "spices"
            assert len(kb.as_retriever(3).invoke("white salt", k=1)) == 1

    def test_the_same_documents_again_embed_nothing(self) -> None:
        """A document that is already stored is neither embedded nor counted again."""
        model = WordEmbeddings()
        with self.filled(model) as kb:
            before = len(model.embedded)
            kb.add([Document(line) for line in LINES], "spices")
            assert len(model.embedded) == before
            assert len(kb) == len(LINES)

    def test_a_document_takes_the_place_of_the_one_with_its_id(self) -> None:
        """Its passages go, whether the new one has more of them or fewer."""
        with self.filled() as kb:
            for text in ("honey is gold " * 90, "honey is brown"):
                kb.add(Document(text, id="honey"), "hive")
            assert len(kb) == len(LINES) + 1
            (best,) = kb.as_retriever(1).invoke("brown honey")
            assert (best.id, best.page_content) == ("honey", "honey is brown")
            assert kb.delete("honey") == 1

    def test_what_is_deleted_is_not_found(self) -> None:
        """Deletion by id and by source."""
        with self.filled() as kb:
            (name,) = kb.add(Document("honey is gold"), "hive")
            assert kb.delete([name, "unknown"]) == 1
            assert "honey is gold" not in _texts(kb, "gold honey")
            assert kb.delete(source="spices") == len(LINES)
            assert (len(kb), kb.sources(), _texts(kb, "white salt")) == (0, [], [])

    def test_files_are_indexed_as_they_change(self) -> None:
        """New, changed and removed files; what did not change is not embedded again."""
        with TemporaryDirectory() as name:
            folder, model = Path(name), WordEmbeddings()
            for number, line in enumerate(LINES):
                (folder / f"{number}.txt").write_text(line, encoding="utf-8")
            with self.create(model) as kb:
                first = kb.index_paths([folder])
                assert (first.added, first.passages, first.embedded) == (4, 4, 4)
                (folder / "0.txt").write_text("salt is grey", encoding="utf-8")
                (folder / "1.txt").unlink()
                (folder / "9.txt").write_text("honey is gold", encoding="utf-8")
                second = kb.index_paths([folder])
                counts = second.added, second.changed, second.removed, second.unchanged
                assert (counts, second.embedded, len(kb)) == ((1, 1, 1, 2), 2, 4)
                third = kb.index_paths([folder])
                assert (third.unchanged, third.embedded) == (4, 0)
                kb.add(Document("honey is sweet"), str(folder / "9.txt"))
                assert kb.index_paths([folder]).unchanged == 4, (
                    "a document that is added to a file leaves the file as it is"
                )
                best = kb.as_retriever(1).invoke("grey salt")[0]
                assert best.page_content == "salt is grey"
                assert best.metadata["source"].endswith("0.txt")
                assert kb.evidence(cite("What is grey?", "salt", [best])[0])[0]["lines"] == (1, 1)
                assert "pepper is black" not in _texts(kb, "black pepper")
                assert kb.delete(str(best.id)) == 1
                assert kb.index_paths([folder]).passages == 5, "a file whose passage was deleted is read again"

    def test_boxes_that_a_loader_gives_are_stored_for_evidence_alone(self) -> None:
        """Neither a search nor a list of fields shows them."""
        box = {"l": 5.0, "t": 10.0, "r": 95.0, "b": 20.0}
        text = {"label": "text", "text": LINES[0], "prov": [{"page_no": 1, "bbox": box}]}
        document = {
            "schema_name": "DoclingDocument",
            "body": {"children": [{"$ref": "#/texts/0"}]},
            "texts": [text],
            "pages": {"1": {"size": {"width": 100, "height": 50}}},
        }
        with TemporaryDirectory() as name, self.create(WordEmbeddings()) as kb:
            Path(name, "spices.json").write_text(json.dumps(document), encoding="utf-8")
            kb.index_paths([name])
            (doc,) = kb.as_retriever(1).invoke("white salt")
            assert BOXES not in doc.metadata | kb.passages()[0].metadata | {field.name: 0 for field in kb.fields()}
            (place,) = kb.evidence(cite("What is white?", "salt", [doc])[0])
            assert (place["page_size"], place["boxes"]) == ((100, 50), [(5, 10, 95, 20)])

    def test_a_source_takes_other_documents(self) -> None:
        """What a loader reads takes the place of what it read before."""
        with self.filled() as kb:
            for text in ("honey is gold", "honey is brown"):
                assert kb.index_documents([Document(text), Document(" ")], "hive").embedded == 1
            assert "honey is gold" not in _texts(kb, "honey gold")
            assert kb.as_retriever(1).invoke("brown honey")[0].page_content == "honey is brown"
            assert len(kb) == len(LINES) + 1

    def test_filters_choose_by_metadata(self) -> None:
        """Values are compared by what they say; a test that cannot be right is an error, not an empty result."""
        with self.create(WordEmbeddings()) as kb:
            docs = [
                Document(
                    f"salt of {year}",
                    metadata={"year": year, "kind": "a" if year < 3 else "b", "day": f"2024-01-0{year + 1}"}
                    | {"size": [1023, 1024, 1024.5, 1025, -1][year]}
                    | ({"tags": ["x", 10 * year]} if year else {}),
                )
                for year in range(5)
            ]
            kb.add(docs, "years")
            for chosen, years in (
                ({"year": 2}, {2}),
                ({"year": [1, 3]}, {1, 3}),
                ({"kind": "a", "year": [1, 3]}, {1}),
                ({"source": "years", "kind": "b"}, {3, 4}),
                ({"kind": "c"}, set()),
                ({"year": [2, "2", 2.5]}, {2}),
                ({"year": {"$gte": 2, "$lt": "4"}}, {2, 3}),
                ({"tags": {"$gt": 10}}, {2, 3, 4}),
                ({"size": {"$gt": 1024}}, {2, 3}),
                ({"size": {"$lt": 1024.5}}, {0, 1, 4}),
                ({"tags": "x"}, {1, 2, 3, 4}),
                ({"day": {"$gt": "2024-01-02"}}, {2, 3, 4}),
                ({"kind": {"$ne": "a"}, "tags": {"$exists": True}}, {3, 4}),
                ({"tags": {"$exists": False}}, {0}),
                ({"$or": [{"year": 0}, {"$not": {"year": {"$lt": 4}}}]}, {0, 4}),
                ({"$and": [{"tags": {"$nin": ["x"]}}, {"folder": {"$exists": False}}]}, {0}),
            ):
                docs = kb.as_retriever(9, filter=chosen).invoke("salt of")
                assert {doc.metadata["year"] for doc in docs} == years, chosen
            for wrong in ({"year": {"$gte": "2024-01-01"}}, {"day": 3}, {"yaer": 2}, {"year": {"$over": 2}}):
                try:
                    kb.as_retriever(filter=wrong)
                except UsageError:
                    continue
                raise AssertionError(f"no error: {wrong}")

    def test_the_newest_version_comes_first(self) -> None:
        """Or that of the time that is asked for; a view that hides it knows only the others."""
        with self.create(WordEmbeddings()) as kb:
            docs = [Document(f"salt costs {n} crowns a sack", metadata={"date": f"202{n}-01-01"}) for n in (1, 5, 3)]
            kb.add([*docs, Document("pepper costs more")], "prices")
            for base, question, year in (
                (kb, "", 5),
                (kb, "in 2022", 1),
                (kb.view({"date": {"$lt": "2024-01-01"}}), "", 3),
            ):
                best = base.as_retriever(1, prefer="newest").invoke(f"salt costs 1 crowns a sack {question}")
                assert best[0].metadata["date"] == f"202{year}-01-01", question

    def test_copies_fill_one_place(self) -> None:
        """A query finds one of several equal texts, whatever their titles."""
        with self.filled() as kb:
            for number in range(4):
                kb.add(Document("honey is gold", metadata={"title": f"N{number}"}), f"n{number}")
            texts = [doc.page_content for doc in kb.as_retriever(3).invoke("gold honey is")]
            assert texts.count("honey is gold") == 1 and len(texts) == 3

    def test_texts_come_back_as_they_were(self) -> None:
        """Odd characters, metadata, titles and headings survive; a quote has its own place."""
        with self.create(WordEmbeddings()) as kb:
            for text in _ODD:
                meta = {"title": text, "n": 1, "heading_path": ["Spices", "Salt"]}
                kb.add(Document(f"{text} salt", metadata=meta), "odd ' name")
            docs = {doc.page_content: doc for doc in kb.as_retriever(9).invoke("salt")}
            assert set(docs) == {f"{text} salt".replace("\ud83d", "?").replace("\0", "\ufffd") for text in _ODD}
            for text, doc in docs.items():
                assert doc.metadata["title"] == text.removesuffix(" salt")
                assert (doc.metadata["n"], doc.metadata["source"]) == (1, "odd ' name")
                assert place_at(doc, 0)["heading_path"] == ["Spices", "Salt"]

    def test_names_lead_from_passage_to_passage(self) -> None:
        """`graph` finds what shares a name with the first passage, and says so; as passages come and go."""
        with self._named() as (kb, search):
            assert [doc.id for doc in search()] == ["song", "singer"]
            via = {"name": "Mara Lind", "passage": "song", "heading": "Tin Harbour"}
            assert [doc.metadata.get("via") for doc in search()] == [None, via]
            kb.delete("singer")
            assert "singer" not in [doc.id for doc in search()]
            kb.add(SINGER)
            kb.delete("song")
            assert not any("via" in doc.metadata for doc in search())
            assert search("What is known of Mara Lind?")[0].id == "singer"

    def test_common_names_lead_nowhere(self) -> None:
        """A name is followed if at most `MAX_PASSAGES`, or `MAX_SHARE` of the passages, have it."""
        with self._named() as (_, search):
            for share in (0.0, 1.0):
                with patch.multiple(graph, MAX_PASSAGES=1, MAX_SHARE=share):
                    assert any("via" in doc.metadata for doc in search()) == (share == 1)

    def test_names_lead_to_passages_that_a_filter_leaves(self) -> None:
        """However many others have the name."""
        with self._named() as (kb, _):
            years = [
                Document(f"In {year} she sang.", metadata={"title": "Mara Lind", "year": year}) for year in range(3)
            ]
            kb.delete("singer")
            kb.add([*years, SINGER], "later")
            with patch.object(candidates, "ENDS", 2):
                docs = kb.as_retriever(9, "graph", filter={"year": {"$exists": False}}).invoke("Who sang Tin Harbour?")
            assert docs[0].id == "song" and "singer" in [doc.id for doc in docs if doc.metadata.get("via")]

    @contextmanager
    def _named(self) -> Iterator[tuple[KnowledgeBase | ServedKnowledgeBase, Callable[..., list[Document]]]]:
        """Open a knowledge base with a song and its singer, and what finds two passages by their names."""
        with self.filled() as kb:
            if "graph" not in kb.modes:
                raise SkipTest("it has no names")
            kb.add([SONG, SINGER])

            def search(question: str = "Who sang the song Tin Harbour?") -> list[Document]:
                return kb.as_retriever(2, "graph").invoke(question)

            yield kb, search

    def test_every_mode_answers(self) -> None:
        """The modes that a knowledge base names find passages, with embeddings; `auto` is one of them."""
        with self.filled() as kb:
            assert "auto" in kb.modes
            for mode in cast("Sequence[RetrieverName]", kb.modes):
                assert kb.as_retriever(2, mode).invoke("white salt")[0].page_content == "salt is white", mode

    def test_it_works_without_embeddings(self) -> None:
        """Words and names are enough, where the store has them."""
        with self.create(None) as kb:
            if "bm25" not in kb.modes:
                raise SkipTest("it has vectors alone")
            kb.add([Document(line) for line in LINES], "spices")
            modes: tuple[RetrieverName, ...] = "auto", "bm25", "graph"
            for mode in modes:
                assert kb.as_retriever(2, mode).invoke("white salt")[0].page_content == "salt is white", mode
            kb.rebuild()
            assert kb.check() == []

    def test_a_passage_is_read_among_its_neighbours(self) -> None:
        """Neighbours are of the same document, in its order."""
        with self.filled() as kb:
            words = " ".join(f"word{number}" for number in range(450))
            names = kb.add([Document("first"), Document(words, id="long"), Document("last")], "texts")[1:-1]
            assert len(names) > 3
            places = kb.as_retriever(1).places
            assert places is not None
            for at, name in enumerate(names):
                around = [doc.id for doc in places(name, 1)]
                assert around == names[max(at - 1, 0) : at + 2]
            assert places("unknown", 1) == []

    def test_all_passages_fields_and_values_are_listed(self) -> None:
        """In the order in which they were added; a value of a list counts by itself."""
        metas: list[dict[str, Any]] = [
            {"year": [-2.5, 1900], "dept": ["hr", "it"], "draft": True},
            {"year": "soon", "dept": "it", "due": "2024-05-01", "release": "v1.10.0"},
        ]
        with self.create(WordEmbeddings()) as kb:
            kb.add([Document(f"text {n}", metadata=own) for n, own in enumerate(metas)], "texts")
            kb.add(Document("text 2"), "hr")
            assert [doc.page_content for doc in kb.passages()] == [f"text {n}" for n in range(3)]
            draft, years = ("draft", "flag", 1, 1, [True]), ("year", "number", 1, 2, [-2.5, 1900])
            others = [("due", "time", 1, 1, ["2024-05-01"]), ("release", "version", 1, 1, ["v1.10.0"])]
            soon = ("year", "text", 1, 1, ["soon"])
            view = kb.view({"year": {"$lt": 0}})
            all_, some = ([field for field in base.fields() if field.name != "title"] for base in (kb, view))
            assert all_ == [("dept", "text", 2, 2, ["it", "hr"]), draft, *others, years, soon]
            assert some == [("dept", "text", 1, 2, ["hr", "it"]), draft, years]
            assert (kb.values("year"), view.values("dept")) == ([-2.5, 1900, "soon"], ["hr", "it"])
            assert sorted(kb.values("source")) == ["hr", "texts"]
            assert [source.key for source in view.sources()] == ["texts"]
            assert kb.values("month") == []

    def test_documents_are_listed_as_their_passages(self) -> None:
        """Each with all its passages, in order."""
        with self.create(WordEmbeddings()) as kb:
            long = " ".join(f"Sentence number {n} of a long text." for n in range(40))
            kb.add([Document("short"), Document("\n indented", id="x"), Document(long)], "texts")
            first, second, third = kb.as_retriever().collection.documents()
            assert [doc.page_content for doc in (*first, *second)] == ["short", "indented"]
            assert " ".join(doc.page_content for doc in third) == long and len(third) > 1

    def test_rows_are_filtered_by_their_columns_and_counted(self) -> None:
        """The columns of a table are fields, and a table holds the rows that pass; after a write, the new ones."""
        with TemporaryDirectory() as folder, self.create(WordEmbeddings()) as kb:
            path = Path(folder, "tickets.csv")
            path.write_text("ticket,status,hours\n1,closed,2 h\n2,open,\n3,closed,4 h\n")
            for closed, hours in ((2, 6), (3, 11)):
                kb.index_paths(path)
                view = kb.view({"status": "closed"})
                assert len(view) == closed
                assert view.tables() is kb.view({"status": "closed"}).tables()
                assert view.tables().run("SELECT count(*), sum(hours) FROM tickets").rows == [(closed, hours)]
                assert {"ticket", "status", "hours"} <= {field.name for field in view.fields()}
                path.write_text(path.read_text().replace("open,", "closed,5 h"))

    def test_a_sound_store_has_no_faults(self) -> None:
        """`check` finds nothing after writes, and `rebuild` changes nothing that is found."""
        with self.filled() as kb:
            kb.delete(str(kb.passages()[1].id))
            assert kb.check() == []
            before = _texts(kb, "white salt")
            kb.rebuild()
            assert (kb.check(), _texts(kb, "white salt")) == ([], before)

    def test_threads_find_the_same(self) -> None:
        """Queries from several threads don't disturb each other, even while documents are added."""
        with self.filled() as kb:
            retriever = kb.as_retriever(2)
            with ThreadPoolExecutor(4) as pool:
                searches = [pool.submit(retriever.invoke, "white salt") for _ in range(12)]
                for number in range(3):
                    kb.add(Document(f"extra text {number}"))
                assert {search.result()[0].page_content for search in searches} == {"salt is white"}


def _texts(kb: KnowledgeBase | ServedKnowledgeBase, query: str) -> list[str]:
    return [doc.page_content for doc in kb.as_retriever(9).invoke(query)]
