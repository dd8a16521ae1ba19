"""BM25, dense, hybrid and reranked retrieval over documents in memory."""

from __future__ import annotations

import asyncio
import threading
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bm25s import stopwords
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.retrievers import BaseRetriever
from pydantic import ValidationError
from rank_bm25 import BM25Okapi
from tests.tiny_encoder import make_tiny_encoder

from ragweave.errors import KnowledgeBaseError, UnusableModelError, UsageError
from ragweave.tools.retrieval import (
    Bm25Retriever,
    DenseRetriever,
    HybridRetriever,
    PassageRetriever,
    RerankRetriever,
)
from ragweave.tools.retrieval.base import lexical_of
from ragweave.tools.retrieval.bm25 import Analyzer, full_text, languages, stop_words
from ragweave.tools.retrieval.bm25_index import Bm25Index
from ragweave.tools.retrieval.embedding import (
    check_embedding_model,
    load_named,
    load_sentence_transformer,
)

CITIES = [
    Document(id="paris", page_content="Paris lies in France.", metadata={"title": "Paris"}),
    Document(id="berlin", page_content="Berlin lies in Germany."),
    Document(id="lyon", page_content="Lyon is a French city in France.", metadata={"source": "x"}),
    Document(page_content="Whales sing."),
]

WORDS = ["whale", "song", "river", "stone", "bread", "cloud", "night"]
passages = st.lists(st.lists(st.sampled_from(WORDS), max_size=8), max_size=12)
queries = st.lists(st.sampled_from([*WORDS, "absent"]), max_size=5)


def ids(documents: list[Document]) -> list[str | None]:
    return [doc.id for doc in documents]


def test_documents_carry_rank_score_title_and_source() -> None:
    first, second = Bm25Retriever.from_documents(CITIES).invoke("Paris, France?")
    assert (first.id, first.metadata["title"], first.metadata["rank"]) == ("paris", "Paris", 0)
    assert (second.id, second.metadata["source"], second.metadata["rank"]) == ("lyon", "x", 1)
    assert first.metadata["score"] > second.metadata["score"] > 0


def test_query_and_index_are_stemmed_alike_and_stop_words_find_nothing() -> None:
    retriever = Bm25Retriever.from_documents(CITIES)
    assert (
        ids(retriever.invoke("singing whale"))[0] == ids(retriever.invoke("WHALES SANG sings"))[0]
    )
    for nothing in ("the in a is", "zebra", "  ", "?!"):
        assert retriever.invoke(nothing) == []


@pytest.mark.parametrize(
    ("language", "theirs"),
    [("english", stopwords.STOPWORDS_EN), ("german", stopwords.STOPWORDS_GERMAN), ("hindi", ())],
)
def test_stop_words_are_those_of_bm25s(language: str, theirs: tuple[str, ...]) -> None:
    assert stop_words(language) == frozenset(theirs)


def test_a_passage_without_id_gets_a_content_id() -> None:
    one = Bm25Retriever.from_documents(CITIES).invoke("whales")[0]
    two = Bm25Retriever.from_documents(reversed(CITIES)).invoke("whales")[0]
    assert one.id and one.id == two.id


def test_k_by_call_and_by_field() -> None:
    retriever = Bm25Retriever.from_documents(CITIES, k=1)
    assert len(retriever.invoke("lies in France")) == 1
    assert len(retriever.invoke("lies in France", None, k=3)) == 3
    assert len(asyncio.run(retriever.ainvoke("lies in France", k=2))) == 2


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "2"])
def test_k_below_one_or_no_number(k: object) -> None:
    retriever = Bm25Retriever.from_documents(CITIES)
    with pytest.raises(UsageError, match="k must be"):
        retriever.invoke("France", k=k)
    with pytest.raises(UsageError, match="k must be"):
        Bm25Retriever.from_documents(CITIES, k=k)  # type: ignore[arg-type]


def test_the_lexical_part_is_found_inside_bindings() -> None:
    own = Bm25Retriever.from_documents(CITIES)
    assert lexical_of(own.with_retry().with_config(tags=["a"])) is own


def test_constructor_refuses_k_zero() -> None:
    with pytest.raises(ValidationError):
        Bm25Retriever(search=lambda _query, _k: [], k=0)


@given(passages, queries, st.integers(1, 15))
def test_search_is_the_sorted_scores(corpus: list[list[str]], query: list[str], k: int) -> None:
    index = Bm25Index.build(corpus)
    hits = index.search(query, k)
    scores = index.scores(query)
    wanted = sorted(((-float(s), i) for i, s in enumerate(scores) if s > 0))[:k]
    assert hits == [(number, -score) for score, number in wanted]
    for number, _ in hits:
        assert set(corpus[number]) & set(query)


def test_scores_agree_with_the_formula() -> None:
    corpus = [["a", "b", "a"], ["b", "c"], ["c", "c", "d", "d"]]
    mean, k1, b = 3.0, 1.5, 0.75
    got = Bm25Index.build(corpus).scores(["a", "c"])

    def part(tf: int, length: int, df: int) -> float:
        idf = np.log(1 + (3 - df + 0.5) / (df + 0.5))
        return float(idf * tf / (tf + k1 * (1 - b + b * length / mean)))

    wanted = [part(2, 3, 1), part(1, 2, 2), part(2, 4, 2)]
    assert got.tolist() == pytest.approx(wanted, rel=1e-5)


def test_ranks_as_rank_bm25_does_on_distinct_terms() -> None:
    rng = np.random.default_rng(3)
    corpus = [[f"t{n}" for n in rng.zipf(1.3, size=60) % 500] for _ in range(300)]
    query = ["t40", "t77", "t123"]
    ours = [n for n, _ in Bm25Index.build(corpus).search(query, 5)]
    peer = BM25Okapi(corpus, k1=1.5, b=0.75).get_scores(query)
    theirs = np.argsort(-peer, kind="stable")[:10].tolist()
    assert set(ours) <= set(theirs)
    assert ours[0] == theirs[0]


def test_ties_stand_in_passage_order() -> None:
    same = [Document(id=str(n), page_content="same words here") for n in range(50)]
    assert ids(Bm25Retriever.from_documents(same).invoke("same words", k=7)) == list("0123456")


@given(corpus=passages)
def test_saved_index_answers_alike(
    corpus: list[list[str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("index") / "bm25"
    index = Bm25Index.build(corpus)
    index.save(folder)
    opened = Bm25Index.open(folder)
    for query in (["whale"], ["stone", "bread", "absent"], []):
        assert opened.search(query, 5) == index.search(query, 5)


@pytest.mark.parametrize("name", ["data.csc.index.npy", "terms.npy", "params.index.json"])
def test_damaged_index_is_said_to_be(name: str, tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path)) / "bm25"
    Bm25Index.build([["a", "b"], ["b"]]).save(folder)
    path = folder / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(KnowledgeBaseError, match="damaged"):
        Bm25Index.open(folder)


def test_analyzer_in_other_languages() -> None:
    german = Analyzer("german").terms
    assert german("Die Häuser") == german("häuser") == german("Ha\u0308user")
    with pytest.raises(UsageError, match=r"klingon.*english"):
        Analyzer("klingon")
    for language in languages():
        assert Analyzer(language).terms("abc 123")


@pytest.mark.parametrize(
    ("language", "text", "terms"),
    [
        ("hindi", "किताब", ["किताब"]),
        ("nepali", "पुस्तक", ["पुस्तक"]),
        ("tamil", "நீர், நிலம்", ["நீர்", "நிலம்"]),
        ("arabic", "كِتَاب", ["كتاب"]),
        ("turkish", "İzmir", ["izmir"]),
        ("english", "The ofﬁce of 5 km²™", ["offic", "5", "km²"]),
        ("english", "½ cup of ﷺ", ["½", "cup", "ﷺ"]),
    ],
)
def test_a_term_is_a_word_of_its_script(language: str, text: str, terms: list[str]) -> None:
    assert Analyzer(language).terms(text) == terms


def test_a_passage_without_the_word_is_not_found_for_its_letters() -> None:
    docs = [Document("क त ब", id="letters"), Document("यह किताब है", id="book")]
    retriever = Bm25Retriever.from_documents(docs, language="hindi")
    assert ids(retriever.invoke("किताब")) == ["book"]


latin = [one for one in map(chr, range(0x250)) if unicodedata.normalize("NFKC", one) == one != "İ"]


@given(st.text(st.sampled_from(latin), max_size=60))
def test_european_text_has_the_terms_that_it_had(text: str) -> None:
    assert Analyzer().terms(text) == Analyzer(analysis=1).terms(text)


def test_dense_orders_by_similarity_and_takes_k() -> None:
    retriever = DenseRetriever.from_documents(CITIES, DeterministicFakeEmbedding(size=32), k=4)
    found = retriever.invoke("Berlin lies in Germany.")
    assert found[0].id == "berlin"
    assert found[0].metadata["score"] == pytest.approx(1.0, abs=1e-5)
    scores = [doc.metadata["score"] for doc in found]
    assert scores == sorted(scores, reverse=True)
    assert ids(retriever.invoke("Berlin lies in Germany.", k=2)) == ids(found)[:2]
    assert DenseRetriever.from_documents([], DeterministicFakeEmbedding(size=3)).invoke("x") == []


class Foreign(BaseRetriever):
    """A retriever of somebody else: no ids, no k."""

    def _get_relevant_documents(self, query: str, *, run_manager: object) -> list[Document]:
        return [Document(page_content=f"{query} {number}") for number in range(9)]


def test_hybrid_fuses_ours_and_foreign_retrievers() -> None:
    bm25 = Bm25Retriever.from_documents(CITIES)
    dense = DenseRetriever.from_documents(CITIES, DeterministicFakeEmbedding(size=32))
    hybrid = HybridRetriever(retrievers=[bm25, dense], k=3)
    found = hybrid.invoke("Berlin lies in Germany.")
    assert found[0].id == "berlin"
    assert found[0].metadata["score"] == pytest.approx(2 / 61)
    assert [doc.metadata["rank"] for doc in found] == [0, 1, 2]
    mixed = HybridRetriever(retrievers=[bm25, Foreign()]).invoke("France", k=4)
    assert len(mixed) == 4
    assert len(set(ids(mixed))) == 4


def shelf(text: str) -> Bm25Retriever:
    return Bm25Retriever.from_documents([Document(text, id="1")])


def test_passages_of_two_bases_that_share_an_id_are_both_found() -> None:
    pair = [shelf("zebra in the shop"), shelf("zebra in the zoo")]
    found = HybridRetriever(retrievers=pair).invoke("zebra")
    assert [doc.page_content for doc in found] == ["zebra in the shop", "zebra in the zoo"]
    assert [doc.metadata["score"] for doc in found] == [1 / 61, 1 / 61]
    assert found[0].id == "1"
    assert found[1].id not in (None, "1")
    (same,) = HybridRetriever(retrievers=[shelf("zebra"), shelf("zebra")]).invoke("zebra")
    assert (same.id, same.metadata["score"]) == ("1", 2 / 61)


class Nameless(PassageRetriever):
    """Finds documents that have no ids."""

    documents: list[Document]

    def _find(self, query: str, k: int) -> list[Document]:
        return self.documents[:k]


def test_passages_without_ids_are_told_apart_and_fused() -> None:
    found = [Document(page_content=f"zebra number {at}") for at in range(3)]
    nameless = Nameless(documents=found)
    assert len({doc.id for doc in nameless.invoke("zebra")} - {None}) == 3
    bm25 = Bm25Retriever.from_documents(found)
    fused = HybridRetriever(retrievers=[nameless, bm25]).invoke("zebra", k=9)
    assert ids(fused) == ids(bm25.invoke("zebra"))
    assert [doc.metadata["score"] for doc in fused] == [2 / 61, 2 / 62, 2 / 63]


def test_a_passage_that_one_retriever_shows_with_its_title_is_found_once() -> None:
    pair = [shelf("Animals. zebra in the shop"), shelf("zebra in the shop")]
    (found,) = HybridRetriever(retrievers=pair).invoke("zebra")
    assert (found.id, found.metadata["score"]) == ("1", 2 / 61)


class ByLength:
    """Scores a passage by its length: any object with `predict` will do."""

    def __init__(self) -> None:
        self.pairs: list[tuple[str, str]] = []

    def predict(self, pairs: list[tuple[str, str]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        self.pairs.extend(pairs)
        return np.array([float(len(text)) for _, text in pairs])


def test_rerank_orders_by_the_model_and_reads_titles() -> None:
    model = ByLength()
    retriever = RerankRetriever.over(Bm25Retriever.from_documents(CITIES), model, k=2)
    found = retriever.invoke("lies in France")
    assert ids(found) == ["lyon", "paris"]
    assert [doc.metadata["rank"] for doc in found] == [0, 1]
    assert ("lies in France", "Paris\nParis lies in France.") in model.pairs
    assert len(model.pairs) == 3
    assert retriever.invoke("zebra") == []
    assert len(RerankRetriever.over(Foreign(), model, depth=4).invoke("x", k=9)) == 9


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ([[0.1, 0.9], [0.9, 0.1]], "Fixed gives a passage several scores"),
        (np.array([[0.1, 0.9], [0.9, 0.1]]), "Fixed gives a passage several scores"),
        ([None, 1.0], "or none"),
        ([float("nan"), 1.0], "Fixed gave a score that is not a number"),
        ([1.0], "Fixed gave 1 scores for 2 passages"),
    ],
)
def test_scores_that_order_nothing_are_refused(scores: object, said: str) -> None:
    class Fixed:
        def predict(self, _pairs: list[tuple[str, str]]) -> Any:
            return scores

    with pytest.raises(UnusableModelError, match=said):
        RerankRetriever.over(Bm25Retriever.from_documents(CITIES), Fixed()).invoke("France")


def test_reranker_that_is_none() -> None:
    base = Bm25Retriever.from_documents(CITIES)
    with pytest.raises(UsageError, match="predict"):
        RerankRetriever.over(base, 7)  # type: ignore[arg-type]
    with pytest.raises(KnowledgeBaseError, match="no folder"):
        RerankRetriever.over(base, "/nowhere/reranker").invoke("France")


def test_a_model_that_nobody_has_is_one_line_and_no_server_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub = pytest.importorskip("huggingface_hub.constants", reason="needs ragweave[chroma]")
    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", True)
    reranked = RerankRetriever.over(Bm25Retriever.from_documents(CITIES), "nobody/none")
    with pytest.raises(KnowledgeBaseError, match=r"^no reranker 'nobody/none': no such") as caught:
        reranked.invoke("France")
    assert "the hub cannot be reached" in str(caught.value)
    # A broken connection in the chain would be retried as a model server's passing fault.
    assert caught.value.__cause__ is caught.value.__context__ is None
    for spec in ("nobody/none", "none"):
        with pytest.raises(KnowledgeBaseError, match=f"^no embedding model '{spec}': .* cannot be"):
            check_embedding_model(spec)
    with pytest.raises(KnowledgeBaseError, match=r"^no embedding model 'no name!/at all'"):
        check_embedding_model("no name!/at all")


class HTTPError(Exception):
    """As of httpx, and of what took its place: no OSError."""


class ConnectError(HTTPError):
    """One of them."""


def test_whatever_client_the_hub_library_has_no_connection_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="needs ragweave[chroma]")

    def fail(*_: object, **__: object) -> None:
        raise ConnectError("Name or service not known")

    monkeypatch.setattr(hub.HfApi, "model_info", fail)
    with pytest.raises(KnowledgeBaseError, match=r"^no reranker 'nope': .* cannot be reached;"):
        RerankRetriever.over(Bm25Retriever.from_documents(CITIES), "nope").invoke("France")
    with pytest.raises(KnowledgeBaseError, match=r"^no embedding model 'nope': .* be reached;"):
        check_embedding_model("nope")

    def load(_spec: str, *, local_files_only: bool = False) -> object:
        raise OSError if local_files_only else ConnectError("reset by peer")

    monkeypatch.setattr(hub.HfApi, "model_info", lambda *_, **__: None)
    with pytest.raises(KnowledgeBaseError, match=r"hub broke off \(reset by peer\)"):
        load_named(load, "nope", "reranker")


def test_a_text_or_a_document_alone_is_one_passage() -> None:
    alone = Bm25Retriever.from_documents(Document("Paris lies in France."), k=9)
    assert len(alone.invoke("Paris")) == 1
    text = Bm25Retriever.from_documents("Paris lies in France.", k=9)  # type: ignore[arg-type]
    assert len(text.invoke("Paris")) == 1


def test_foreign_documents_with_lone_surrogates_are_ranked() -> None:
    broken = [Document("France \ud800"), Document("Spain", metadata={"title": "\udfff"})]
    retriever = Bm25Retriever.from_documents(broken)
    assert [doc.page_content for doc in retriever.invoke("France \ud801")] == ["France ?"]


@pytest.mark.parametrize("scores", [np.array([[0.1], [0.9]]), iter([0.1, 0.9])])
def test_one_score_a_passage_in_any_form_will_do(scores: object) -> None:
    class Fixed:
        def predict(self, _pairs: list[tuple[str, str]]) -> Any:
            return scores

    base = Bm25Retriever.from_documents([Document("zebra one"), Document("zebra two")])
    found = RerankRetriever.over(base, Fixed()).invoke("zebra")
    assert [doc.metadata["score"] for doc in found] == [0.9, 0.1]


@pytest.mark.parametrize("kind", ["bm25", "dense", "hybrid", "rerank"])
def test_many_threads_get_what_one_gets(kind: str) -> None:
    documents = [Document(page_content=f"{w} {v} {w}{v}") for w in WORDS for v in WORDS]
    bm25 = Bm25Retriever.from_documents(documents)
    dense = DenseRetriever.from_documents(documents, DeterministicFakeEmbedding(size=16))
    made: dict[str, PassageRetriever] = {
        "bm25": bm25,
        "dense": dense,
        "hybrid": HybridRetriever(retrievers=[bm25, dense]),
        "rerank": RerankRetriever.over(bm25, ByLength()),
    }
    retriever = made[kind]
    asked = [f"{w} {v}" for w in WORDS for v in WORDS[:3]] * 4
    alone = [ids(retriever.invoke(query)) for query in asked]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda query: ids(retriever.invoke(query)), asked)) == alone


async def test_async_calls_leave_the_event_loop_free() -> None:
    entered, free = threading.Event(), threading.Event()

    def search(_query: str, _k: int) -> list[Document]:
        entered.set()
        assert free.wait(30), "the event loop was blocked"
        return CITIES[:1]

    call = asyncio.create_task(Bm25Retriever(search=search).ainvoke("x"))
    while not entered.is_set():
        await asyncio.sleep(0.01)
    free.set()
    assert ids(await call) == ["paris"]


def test_an_encoder_without_a_ranking_head_is_refused_as_a_cross_encoder(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    folder = make_tiny_encoder(tmp_path / "e5-tiny")
    reranked = RerankRetriever.over(Bm25Retriever.from_documents(CITIES), str(folder))
    with pytest.raises(UsageError, match="without a ranking head") as caught:
        reranked.invoke("France")
    assert f"bi-encoder:{folder}" in str(caught.value)


def test_a_bi_encoder_reranks_by_cosine_with_e5s_prefixes(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    folder = make_tiny_encoder(tmp_path / "e5-tiny")
    base = Bm25Retriever.from_documents(CITIES)
    reranked = RerankRetriever.over(base, f"bi-encoder:{folder}", depth=3)
    found = reranked.invoke("capital of France", k=3)
    scores = [doc.metadata["score"] for doc in found]
    assert scores == sorted(scores, reverse=True)
    model = load_sentence_transformer(str(folder))
    vectors = model.encode(
        ["query: capital of France", f"passage: {full_text(found[0])}"], normalize_embeddings=True
    )
    assert scores[0] == pytest.approx(float(vectors[0] @ vectors[1]), abs=1e-5)
    bare = RerankRetriever.over(base, f"bi-encoder:{folder}?query=&passage=", depth=3)
    assert bare.invoke("capital of France", k=3)[0].metadata["score"] != scores[0]
    with pytest.raises(UsageError, match="takes query= and passage="):
        RerankRetriever.over(base, f"bi-encoder:{folder}?pool=cls").invoke("France")
