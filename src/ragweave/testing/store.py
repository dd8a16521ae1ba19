"""The contract of a store: what a knowledge base keeps, wherever it is."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from ragweave.errors import KnowledgeBaseError
from ragweave.tools.knowledge import KnowledgeBase, Settings
from ragweave.tools.knowledge.checking import check, repair
from ragweave.tools.retrieval import Bm25Retriever, PassageRetriever
from ragweave.tools.stores import Address

LINES = ("salt is white", "pepper is black", "sugar is sweet", "lemon is sour")
_ODD = ("nul\x00nul", "quote ' \" \\ ; --", "橋を建てた 🌉", "x\u2028 {} %s ?", "a\tb\r\nc")


class WordEmbeddings(Embeddings):
    """One dimension a word's hash; notes what it embeds, and may fail after some texts."""

    def __init__(self, size: int = 64) -> None:
        """Take the length of the vectors."""
        self.size = size
        self.embedded: list[str] = []
        self.before: Callable[[], None] = lambda: None
        """Called before each batch."""
        self.before_query: Callable[[], None] = lambda: None
        """Called before each query is embedded."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector a text."""
        self.before()
        self.embedded.extend(texts)
        return [self._vector(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        self.before_query()
        return self._vector(text)

    def _vector(self, text: str) -> list[float]:
        vector = [0.01] * self.size
        for word in text.lower().split():
            vector[zlib.crc32(word.encode()) % self.size] += 1.0
        return vector


class StoppedError(Exception):
    """Raised in the middle of a write, as if the process had ended there."""


class KnowledgeStoreTests:
    """What a knowledge base keeps in any store. Subclass it and say where one can be made.

    class TestMine(KnowledgeStoreTests):
        def place(self):
            return f"mine:http://127.0.0.1:9999#t{next(numbers)}"
    """

    exact_bm25: bool = True
    """Whether the scores of words are those of ragweave's own index, to four digits. Where they are
    not, for lengths or passages are counted otherwise, one word still ranks passages as there."""

    def place(self) -> str | Path | Address:
        """Return a new place at each call, at which there is no knowledge base."""
        raise NotImplementedError(f"{type(self).__name__} needs a place method")

    @contextmanager
    def made(self, model: Embeddings | None = None) -> Iterator[KnowledgeBase]:
        """Make a knowledge base of `LINES`."""
        with KnowledgeBase.create(self.place(), embeddings=model or WordEmbeddings()) as kb:
            kb.add([Document(line) for line in LINES])
            yield kb

    def test_words_vectors_and_both_find(self) -> None:
        """BM25, dense and hybrid retrieval find the passage, with scores and without repeats."""
        with self.made() as kb:
            for mode in ("bm25", "dense", "hybrid", "auto"):
                found = kb.as_retriever(9, mode).invoke("white salt")
                assert found[0].page_content == "salt is white", mode
                scores = [doc.metadata["score"] for doc in found]
                assert scores == sorted(scores, reverse=True), f"{mode}: scores rise"
                assert len({doc.id for doc in found}) == len(found)
            assert [doc.page_content for doc in _words(kb, "salt", 9)] == ["salt is white"]
            assert len(kb.as_retriever(9, "dense").invoke("white salt")) == len(LINES)
            assert _words(kb, "zqxv of the", 3) == []
            best = kb.as_retriever(1, "dense").invoke("salt is white")[0]
            assert abs(best.metadata["score"] - 1) < 0.001, "no cosine similarity"

    def test_words_rank_as_in_memory(self) -> None:
        """BM25 ranks as ragweave's own index does, also after a deletion."""
        texts = [f"{'salt ' * (i % 3)}{'white ' * (i % 4)}{'bay ' * i}stone {i}" for i in range(12)]
        docs = [Document(text, id=f"d{i:02}") for i, text in enumerate(texts)]
        settings = Settings(embedding=None)
        with KnowledgeBase.create(self.place(), settings=settings) as kb:
            kb.add(docs)
            kb.delete(["d05"])
            kept = [doc for doc in docs if doc.id != "d05"]
            for query in ("white salt", "salt salt bay", "stone"):
                told = Bm25Retriever.from_documents(kept, k=5).invoke(query)
                found = _words(kb, query, 5)
                assert len(found) == len(told)
                wanted = [doc.metadata["score"] for doc in told]
                if self.exact_bm25:
                    assert [doc.id for doc in found] == [doc.id for doc in told], query
                    scores = [doc.metadata["score"] for doc in found]
                    assert _near(scores, wanted), f"{query}: {scores}, in memory {wanted}"
                elif " " not in query:
                    every = Bm25Retriever.from_documents(kept, k=len(kept)).invoke(query)
                    own = {doc.id: doc.metadata["score"] for doc in every}
                    scores = [own[doc.id] for doc in found]
                    assert _near(scores, wanted), f"{query}: not in the order of scores, {scores}"

    def test_only_new_contents_are_embedded(self) -> None:
        """What has a vector is not embedded again, in whatever source it stands."""
        model = WordEmbeddings()
        with self.made(model) as kb:
            assert model.embedded == list(LINES)
            kb.add([Document("salt is white"), Document("honey is gold")], "elsewhere")
            assert model.embedded == [*LINES, "honey is gold"]
            assert len(kb) == 5, "a passage of two sources counts once"
            hits = kb.as_retriever(9, "dense").invoke("white salt")
            assert [doc.page_content for doc in hits].count("salt is white") == 1
            kb.add([Document("twice"), Document("twice", metadata={"source": "b"})])
            assert model.embedded.count("twice") == 1

    def test_a_document_with_an_id_replaces_the_one_before(self) -> None:
        """A shorter text, another order and new metadata replace; the same document does not."""
        settings = Settings(embedding=None, size=3)
        with KnowledgeBase.create(self.place(), settings=settings) as kb:
            for text, ids in (
                ("salt is white pepper is black sugar is sweet", ["d#0", "d#1", "d#2"]),
                ("salt is white pepper is black", ["d#0", "d#1"]),
                ("pepper is black salt is white", ["d#0", "d#1"]),
                ("salt is white " * 3, ["d#0", "d#1", "d#2"]),
            ):
                for url in ("old", "new"):
                    doc = Document(text, id="d", metadata={"url": url, "odd": float("nan")})
                    assert kb.add([doc]) == ids
                    generation = kb.manifest.generation
                    assert kb.add([doc]) == ids
                    assert kb.manifest.generation == generation, "the same document was replaced"
                    assert len(kb) == len(ids)
                    (first, *_) = sorted(_words(kb, "salt", 9), key=lambda one: str(one.id))
                    assert first.metadata["url"] == url
                    assert first.metadata["start"] == text.index("salt")
            assert _words(kb, "pepper sugar", 9) == []

    def test_what_is_deleted_is_never_found(self) -> None:
        """Deletion by id and by source, and adding again."""
        with self.made() as kb:
            (doc,) = kb.as_retriever(1, "bm25").invoke("salt")
            assert kb.delete([str(doc.id), "unknown"]) == 1
            for mode in ("bm25", "dense", "hybrid"):
                found = kb.as_retriever(9, mode).invoke("white salt")
                assert "salt is white" not in [doc.page_content for doc in found], mode
            assert kb.add([Document("salt is white")]) == [doc.id]
            assert [one.id for one in _words(kb, "salt", 1)] == [doc.id]
            assert kb.delete_source("added")
            assert not kb.delete_source("added")
            assert kb.as_retriever(9).invoke("white salt") == []
            assert len(kb) == 0

    def test_files_are_indexed_as_they_change(self) -> None:
        """New, changed and removed files; unchanged ones make no new generation."""
        with TemporaryDirectory() as name:
            folder = Path(name)
            for number, line in enumerate(LINES):
                (folder / f"{number}.txt").write_text(line, encoding="utf-8")
            model = WordEmbeddings()
            with KnowledgeBase.create(self.place(), embeddings=model) as kb:
                first = kb.index_paths([folder])
                assert (first.added, first.passages, first.embedded) == (4, 4, 4)
                (folder / "0.txt").write_text("salt is grey", encoding="utf-8")
                (folder / "1.txt").unlink()
                (folder / "9.txt").write_text("honey is gold", encoding="utf-8")
                then = kb.index_paths([folder])
                counts = (then.added, then.changed, then.removed, then.unchanged)
                assert (counts, then.embedded) == ((1, 1, 1, 2), 2)
                assert kb.index_paths([folder]).generation == then.generation
                (doc,) = _words(kb, "salt", 9)
                assert doc.page_content == "salt is grey"
                assert doc.metadata["source"].endswith("0.txt")
                assert not _words(kb, "pepper", 9)
                assert kb.manifest.sources == len(kb) == 4
                assert check(kb.path) == []

    def test_texts_come_back_as_they_were(self) -> None:
        """Odd characters, metadata and titles survive, and a check finds nothing wrong."""
        headings = {"heading_path": ["Spices", "Salt"]}
        docs = [Document(f"{text} salt", metadata={"title": text, "n": 1, **headings}) for text in _ODD]
        with KnowledgeBase.create(self.place(), embeddings=WordEmbeddings()) as kb:
            kb.add(docs, "odd ' name")
            found = {doc.page_content: doc.metadata for doc in _words(kb, "salt", 9)}
            assert set(found) == {doc.page_content for doc in docs}
            for doc in docs:
                meta = found[doc.page_content]
                assert (meta["title"], meta["n"]) == (doc.metadata["title"], 1)
                assert meta["source"] == "odd ' name"
            assert check(kb.path) == []

    def test_settings_are_kept(self) -> None:
        """What it was made with holds when it is opened; it can't be made twice, or opened unmade."""
        place = self.place()
        _refused(lambda: KnowledgeBase.open(place), "no knowledge base at")
        settings = Settings(embedding=None, size=7, language="german")
        with KnowledgeBase.open_or_create(place, settings=settings) as kb:
            kb.add([Document("Das Salz ist weiß.")])
        with KnowledgeBase.open(place) as again:
            assert again.settings == settings.resolved()
            assert _words(again, "Salze", 1)
        _refused(lambda: KnowledgeBase.create(place), "already a knowledge base")
        other = Settings(embedding=None, size=8, language="german")
        _refused(lambda: KnowledgeBase.open_or_create(place, settings=other), "size = 7, not 8")
        _refused(lambda: KnowledgeBase.open(place, embeddings=WordEmbeddings()), "without embeddings")

    def test_another_model_is_refused(self) -> None:
        """Vectors of another length are refused, in queries and in writes, and nothing is lost."""
        with self.made() as kb:
            assert kb.manifest.dimension == 64
            with KnowledgeBase.open(kb.path, embeddings=WordEmbeddings(32)) as other:
                query = other.as_retriever(1, "dense")
                _refused(lambda: query.invoke("salt"), "64 dimensions, but")
                _refused(lambda: other.add([Document("new text")]), "64 dimensions, but")
                assert len(_words(other, "salt", 9)) == 1
            with KnowledgeBase.open(kb.path) as bare:
                _refused(bare.as_retriever, "was created with an embeddings object")
                assert len(_words(bare, "salt", 9)) == 1

    def test_a_reader_sees_what_another_wrote(self) -> None:
        """An open reader's next query sees the newest generation, the query before the older."""
        with self.made() as kb, KnowledgeBase.open(kb.path, embeddings=WordEmbeddings()) as reader:
            hybrid = reader.as_retriever(9, "hybrid")
            assert len(hybrid.invoke("white salt")) == 4
            for number in range(3):
                kb.add([Document(f"salt number {number}")])
                assert len(hybrid.invoke("white salt")) == 5 + number
            assert reader.manifest.generation == 4

    def test_a_hybrid_query_is_of_one_generation(self) -> None:
        """What a writer replaces while the query is embedded is not found beside what replaced it."""
        model = WordEmbeddings()
        with self.made(model) as kb:
            kb.add([Document("a ticket costs 5 euros", id="price")], "prices")

            def write() -> None:
                model.before_query = lambda: None
                kb.add([Document("a ticket costs 9 euros", id="price")], "prices")

            hybrid = kb.as_retriever(9, "hybrid")
            model.before_query = write
            for _ in range(2):
                found = [doc.page_content for doc in hybrid.invoke("ticket euros")]
                assert sorted(found) == sorted([*LINES, "a ticket costs 9 euros"])

    def test_a_broken_write_changes_nothing(self) -> None:
        """A write that ends in the middle is not seen; the next takes over what it had embedded."""
        model = WordEmbeddings()
        many = [Document(f"grain number {number}") for number in range(100)]
        with self.made(model) as kb:
            model.before = _stop_after(2)
            try:
                kb.add(many, "many")
            except StoppedError:
                pass
            else:
                raise AssertionError("the write was not stopped")
            done = len(model.embedded)
            assert 4 < done < 104
            for mode in ("bm25", "dense"):
                found = kb.as_retriever(9, mode).invoke("grain number salt")
                assert not [doc for doc in found if "grain" in doc.page_content], mode
            assert len(kb) == 4
            assert check(kb.path), "a check does not see the rows that are left"
            model.before = lambda: None
            kb.add(many, "many")
            assert len(model.embedded) == 104, "vectors that were paid for were made again"
            assert len(_words(kb, "grain", 200)) == 100
            assert check(kb.path) == []

    def test_what_a_broken_write_left_is_collected(self) -> None:
        """The next write, whatever it writes, deletes it."""
        model = WordEmbeddings()
        with self.made(model) as kb:
            model.before = _stop_after(2)
            try:
                kb.add([Document(f"grain {number}") for number in range(100)], "many")
            except StoppedError:
                model.before = lambda: None
            found = check(kb.path)
            assert found
            repair(kb.path, found, embeddings=model)
            assert check(kb.path) == []
            assert not _words(kb, "grain", 9)
            assert [doc.page_content for doc in _words(kb, "salt", 9)] == ["salt is white"]

    def test_one_writer_at_a_time(self) -> None:
        """A second writer is refused while the first works, and admitted after it."""
        model, told = WordEmbeddings(), list[str]()
        with self.made(model) as kb, KnowledgeBase.open(kb.path, embeddings=model) as second:

            def meddle() -> None:
                model.before = lambda: None
                try:
                    second.add([Document("meddled")])
                except KnowledgeBaseError as error:
                    told.append(str(error))

            model.before = meddle
            kb.add([Document("first")])
            assert told, "two writers wrote at once"
            assert "is being written by process" in told[0]
            second.add([Document("second")])
            assert len(kb) == 6

    def test_threads_ask_while_one_writes(self) -> None:
        """Queries from several threads find the same, whatever is written meanwhile."""
        with self.made() as kb:
            modes = [kb.as_retriever(2, mode) for mode in ("bm25", "dense", "hybrid")]
            with ThreadPoolExecutor(4) as pool:
                asked = [pool.submit(_first, modes[n % 3]) for n in range(18)]
                for number in range(3):
                    kb.add([Document(f"extra text {number}")])
                assert {one.result() for one in asked} == {"salt is white"}


def _stop_after(batches: int) -> Callable[[], None]:
    left = [batches]

    def stop() -> None:
        left[0] -= 1
        if left[0] < 1:
            raise StoppedError

    return stop


def _near(scores: Sequence[float], wanted: Sequence[float]) -> bool:
    return all(abs(one - other) < 0.0001 for one, other in zip(scores, wanted, strict=True))


def _words(kb: KnowledgeBase, query: str, k: int) -> list[Document]:
    return kb.as_retriever(k, "bm25").invoke(query)


def _first(retriever: PassageRetriever) -> str:
    return retriever.invoke("white salt")[0].page_content


def _refused(act: Callable[[], object], words: str) -> None:
    try:
        act()
    except KnowledgeBaseError as error:
        assert words in str(error), f"the error does not say {words!r}: {error}"
        assert "\n" not in str(error)
    else:
        raise AssertionError(f"not refused: {words}")
