"""What a passage scores, exactly: words and cosines fused, and paths along names."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, pstdev

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from ragweave.names import RetrieverName
from ragweave.testing import CARDS
from ragweave.testing.store import WordEmbeddings
from ragweave.tools.embeddings.named import unit
from ragweave.tools.knowledge import IndexSettings, KnowledgeBase

QUESTION = "Which harbour song has horns?"
SEED = "The harbour song has horns. It was sung by Ada Brenner and filmed by Karl Oster."
PAGES = {
    "Reel": SEED,
    "Ada Brenner": "She was born in May.",
    "Karl Oster": "He died in June.",
    "Film": "Karl Oster left early.",
    "Salt": "It is white.",
}


VECTORS = {"salt": [1.0, 0.0], "lake": [0.6, 0.8], "mine": [-0.8, 0.6], "which": [1.0, 0.0]}


class Angles(Embeddings):
    """Vectors of two dimensions, by the first word of a text."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [VECTORS[text.split()[0]] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return VECTORS[text.split()[0]]


class Narrow(Embeddings):
    """Vectors of length 1 whose cosines are .7 + .3 times those of another model."""

    def __init__(self, wide: Embeddings) -> None:
        self.wide = wide

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [*(math.sqrt(0.3) * value for value in unit([self.wide.embed_query(text)])[0]), math.sqrt(0.7)]


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[KnowledgeBase]:
    with KnowledgeBase.create(tmp_path / "kb", settings=IndexSettings(embedding=None)) as base:
        yield base


def fill(kb: KnowledgeBase, pages: dict[str, str]) -> None:
    kb.add([Document(text, id=title, metadata={"title": title}) for title, text in pages.items()], split=False)


def scores(kb: KnowledgeBase, question: str, mode: RetrieverName) -> dict[str, float]:
    return {str(doc.id): doc.metadata["score"] for doc in kb.as_retriever(10, mode).invoke(question)}


def test_a_path_scores_by_the_seed_the_gate_the_rarity_and_the_edge(kb: KnowledgeBase) -> None:
    fill(kb, PAGES)
    assert scores(kb, QUESTION, "bm25").keys() == {"Reel"}
    ada, karl = (0.75 * math.log(1 + 5 / passages) / math.log(1 + 5) for passages in (2, 3))
    ranking = scores(kb, QUESTION, "graph")
    assert ranking == pytest.approx(
        {"Reel": 1.15, "Ada Brenner": ada, "Karl Oster": karl, "Film": karl * 0.3 * 3**-0.25}
    )
    fill(kb, {"Born": "It was May."})
    ranking = scores(kb, f"{QUESTION} Born in June?", "graph")
    words = scores(kb, f"{QUESTION} Born in June?", "bm25")
    base = words["Karl Oster"] / words["Reel"]
    path = 0.75 * math.log(1 + 6 / 3) / math.log(1 + 6)
    assert ranking["Karl Oster"] == pytest.approx(base + 0.15 * base**2 + 2 * path)


def test_the_second_seed_passes_on_the_square_of_its_share(kb: KnowledgeBase) -> None:
    fill(
        kb,
        {
            **PAGES,
            "Salt": "A harbour of salt lies there in the north. Ann Lee left the old town in the end.",
            "Ann Lee": "She is old.",
        },
    )
    words = scores(kb, QUESTION, "bm25")
    base = words["Salt"] / words["Reel"]
    rarity = math.log(1 + 6 / 2) / math.log(1 + 6)
    assert scores(kb, QUESTION, "graph")["Ann Lee"] == pytest.approx(base**2 * 0.75 * rarity)


def test_a_name_in_the_question_leads_to_what_is_about_it(kb: KnowledgeBase) -> None:
    fill(kb, PAGES)
    question = "Which harbour song of Ada Brenner has horns?"
    words = scores(kb, question, "bm25")
    base = words["Ada Brenner"] / words["Reel"]
    path = 0.6 * math.log(1 + 5 / 2) / math.log(1 + 5)
    assert scores(kb, question, "graph")["Ada Brenner"] == pytest.approx(base + 0.15 * base**2 + path)


def test_the_first_passage_stays_first_however_strong_a_path(kb: KnowledgeBase) -> None:
    fill(kb, {**PAGES, "Ada Brenner": "She was born in May, in May."})
    ranking = scores(kb, f"{QUESTION} Born in May?", "graph")
    assert [*ranking][:2] == ["Reel", "Ada Brenner"]
    assert ranking["Reel"] > ranking["Ada Brenner"] > 1.15


def test_only_a_path_that_gave_more_than_half_of_a_score_is_shown(kb: KnowledgeBase) -> None:
    fill(kb, {**PAGES, "Film": "A harbour song with horns, as Karl Oster said."})
    by_id = {doc.id: doc for doc in kb.as_retriever(10, "graph").invoke(QUESTION)}
    assert by_id["Karl Oster"].metadata["via"] == {"name": "Karl Oster", "passage": "Reel", "heading": "Reel"}
    assert "via" not in by_id["Film"].metadata


def test_no_path_leads_back_to_where_it_began(kb: KnowledgeBase) -> None:
    fill(kb, {**PAGES, "Salt": "A harbour of salt, as Ann Lee said."})
    words = scores(kb, QUESTION, "bm25")
    base = words["Salt"] / words["Reel"]
    assert scores(kb, QUESTION, "graph")["Salt"] == pytest.approx(base + 0.15 * base**2)


def test_a_name_in_more_than_three_hundred_passages_is_not_followed(kb: KnowledgeBase) -> None:
    fill(kb, {**PAGES, **{f"F{n}": f"Ada Brenner saw number {n}." for n in range(299)}})
    assert "Ada Brenner" not in scores(kb, QUESTION, "graph")
    kb.delete("F7")
    assert "Ada Brenner" in scores(kb, QUESTION, "graph")


def test_words_and_cosines_are_fused(tmp_path: Path) -> None:
    texts = {"a": "salt is dear", "b": "lake of salt and salt and water", "c": "mine with salt", "d": "mine of iron"}
    with KnowledgeBase.create(tmp_path / "kb", embeddings=Angles()) as kb:
        kb.add([Document(text, id=name) for name, text in texts.items()], split=False)
        words = {"d": 0.0, **scores(kb, "which salt", "bm25")}
        cosines = {"a": 1.0, "b": 0.6, "c": -0.8, "d": -0.8}
        assert scores(kb, "which salt", "dense") == pytest.approx(cosines)
        weight = max(0.4 / pstdev(words.values()), math.sqrt(3) / 2 / max(words.values()))
        standard = {
            name: (cosine - mean(cosines.values())) / pstdev(cosines.values()) for name, cosine in cosines.items()
        }
        fused = {
            name: ((weight * words[name]) ** 1.5 + math.log1p(math.exp(standard[name])) ** 1.5) ** (1 / 1.5)
            for name in words
        }
        assert scores(kb, "which salt", "hybrid") == pytest.approx(fused)


def test_a_rare_term_outweighs_the_nearest_vectors(tmp_path: Path) -> None:
    with KnowledgeBase.create(tmp_path / "kb", embeddings=Angles()) as kb:
        kb.add([Document(f"salt of number {n}", id=f"s{n}") for n in range(200)], split=False)
        kb.add(Document("mine KX-7741-B", id="rare"), split=False)
        for mode in ("hybrid", "graph"):
            assert next(iter(scores(kb, "which salt has KX-7741-B?", mode))) == "rare"


def test_the_farthest_passage_has_a_score(tmp_path: Path) -> None:
    with KnowledgeBase.create(tmp_path / "kb", embeddings=Angles()) as kb:
        kb.add([Document(f"salt of number {n}", id=f"s{n}") for n in range(600)], split=False)
        kb.add(Document("mine of iron", id="far"), split=False)
        ranking = [doc.id for doc in kb.as_retriever(601, "hybrid").invoke("which sugar?")]
        assert (len(ranking), ranking[-1]) == (601, "far")


@pytest.mark.parametrize("mode", ["hybrid", "graph"])
def test_a_model_with_narrow_cosines_ranks_as_one_with_wide_ones(tmp_path: Path, mode: RetrieverName) -> None:
    rankings = []
    for embeddings in (WordEmbeddings(512), Narrow(WordEmbeddings(512))):
        with KnowledgeBase.create(tmp_path / type(embeddings).__name__, embeddings=embeddings) as kb:
            kb.add(CARDS, split=False)
            queries = [doc.page_content for doc in CARDS]
            rankings.append([[doc.id for doc in kb.as_retriever(10, mode).invoke(query)] for query in queries])
    assert rankings[0] == rankings[1]


def test_a_filter_does_not_change_the_order(tmp_path: Path) -> None:
    with KnowledgeBase.create(tmp_path / "kb", embeddings=WordEmbeddings(512)) as kb:
        for number, doc in enumerate(CARDS):
            kb.add(doc.model_copy(update={"metadata": {**doc.metadata, "odd": number % 2}}), split=False)
        every = [doc.id for doc in kb.as_retriever(10, "hybrid").invoke(CARDS[1].page_content) if doc.metadata["odd"]]
        odd = kb.as_retriever(10, "hybrid", filter={"odd": 1}).invoke(CARDS[1].page_content)
        assert [doc.id for doc in odd] == every
