"""Names, the tables that hold them, and the paths between passages."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from ragweave.testing import CARDS, RetrieverTests
from ragweave.testing.store import WordEmbeddings
from ragweave.tools.knowledge import IndexSettings, KnowledgeBase
from ragweave.tools.knowledge.names import folded, names_in, names_of, sentences
from ragweave.tools.knowledge.store import FILE

SONG = "Tin Harbour is a song by the singer Mara Ødegård, released on Blue Pail Records."
SINGER = "She was born on 3 May 1961 in Vell and taught music."
OTHERS = [
    ("Blue Pail Records", "Blue Pail Records is a label founded in Oslo."),
    ("Song", "A song is a piece of music that is sung. A singer sings it when it is released."),
    ("Harbour", "A harbour is a place where ships are safe from the sea."),
    ("Birth", "Birth is the event at which somebody is born, on a date."),
]
PASSAGES = [
    Document(text, id=title, metadata={"title": title})
    for title, text in [("Tin Harbour (song)", SONG), ("Mara Ødegård", SINGER), *OTHERS]
]
QUESTION = "When was the singer of Tin Harbour born?"


class TestGraph(RetrieverTests):
    @pytest.fixture(autouse=True)
    def _kb(self, tmp_path: Path) -> Iterator[None]:
        with KnowledgeBase.create(tmp_path / "kb", embeddings=WordEmbeddings(512)) as self.kb:
            self.kb.add(CARDS, split=False)
            yield

    def retriever(self) -> BaseRetriever:
        return self.kb.as_retriever(mode="graph")


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[KnowledgeBase]:
    with KnowledgeBase.create(tmp_path / "words", settings=IndexSettings(embedding=None)) as base:
        yield base


def top_passages(kb: KnowledgeBase, question: str, k: int = 2) -> list[str | None]:
    return [doc.id for doc in kb.as_retriever(k, "graph").invoke(question)]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("The Beatles", "beatles"),
        ("Mara Ødegård’s", "mara odegard"),
        ("max_iter", "max iter"),
        ("東京大学", "東 京 大 学"),
    ],
)
def test_names_are_compared_without_case_accents_and_signs(text: str, name: str) -> None:
    assert folded(text) == name


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            'The film "Play no games" by Director Ann Lee of the Bank of Norway won.',
            "play no games|ann lee|bank of norway",
        ),
        ("It was John F. Kennedy who came.", "john f kennedy"),
        ("Here is Yang Chin-hu of Taiwan.", "yang chin hu|taiwan"),
        (
            "Order part KX-7741-B from sales@kappa.example, see `retry` and RFC2616.",
            "kx 7741 b|sales kappa example|retry|rfc2616",
        ),
        ("It calls parse_row of csv.DictReader in handbook.md.", "parse row|csv dictreader|dictreader|handbook"),
        ("As Section 4.2 and § 7 say.", "§ 4.2|§ 7"),
        ("他在「北京大学」读书。", "北 京 大 学"),
        ("In May he left it well-known, e.g. for 3.5 days.", ""),
    ],
)
def test_names_in_a_sentence(text: str, names: str) -> None:
    spelt = names_in(text)
    assert set(filter(None, names.split("|"))) <= spelt.keys()
    assert bool(names) == bool(spelt)


@pytest.mark.parametrize(
    ("mention", "title"),
    [
        ("The yard was founded by A.P. Berg in spring.", "A. P. Berg"),
        ("The yard was founded in the north by A. P. Berg and later sold to the town of Alden.", "A.P. Berg"),
        ("The yard was founded by A.P.J. Abdul Berg.", "A. P. J. Abdul Berg"),
        ("The yard was founded by Ann F. Berg in spring.", "Ann Berg"),
        ("The yard was founded by Ann Berg in spring.", "Ann F. Berg"),
        ("The yard was founded by Prof. Ann Berg in spring.", "Ann Berg"),
        ("The yard was founded by Ann Berg in spring.", "Dr. Ann Berg"),
    ],
)
def test_initials_and_titles_lead_to_the_person(mention: str, title: str) -> None:
    about = {name for name, is_subject in names_of("Born in Tromso.", {"title": title}).items() if is_subject}
    assert about & names_of(mention, {"title": "Yard"}).keys()


def test_other_people_stay_apart() -> None:
    about = {name for name, is_subject in names_of("Born in Tromso.", {"title": "Ann F. Berg"}).items() if is_subject}
    assert not about & names_of("It was founded by Ann Lund and F. Berg.", {"title": "Yard"}).keys()


def test_sentences_end_at_signs_and_at_list_items() -> None:
    assert sentences("He met Ann Lee in the old town. Bob Ray left the very next day.\n- Then he came back again.") == [
        "He met Ann Lee in the old town.",
        "Bob Ray left the very next day.",
        "- Then he came back again.",
    ]


@pytest.mark.parametrize(
    ("text", "metadata", "about"),
    [
        ("It sank.", {"title": "Tin Harbour (song)"}, "tin harbour"),
        (
            "It ends.",
            {"title": "Contract", "heading_path": ["Rules", "4.2 Notice period"]},
            "contract|§ 4.2|notice period",
        ),
        ("- **Net worth** means what is left.\n- `retry` tries again.", {}, "net worth|retry"),
        ("class RowParser(Base):\n    def parse(self): ...", {}, "rowparser|parse"),
        ("code: AD\nname: Andorra", {"line": 2}, "ad"),
    ],
)
def test_what_a_passage_is_about(text: str, metadata: dict[str, object], about: str) -> None:
    assert {name for name, own in names_of(text, metadata).items() if own} == set(about.split("|"))


@pytest.mark.parametrize(
    ("text", "metadata", "mentioned"),
    [
        ("Date: 2024-03-05\nPayee: City of Varn", {"line": 3}, "city of varn"),
        ("From: Ann Lee\nDate: Mon, 4 Mar\nSubject: Roof\n\nWe offer this.", {}, "ann lee"),
    ],
)
def test_columns_and_headers_are_no_names(text: str, metadata: dict[str, object], mentioned: str) -> None:
    names = names_of(text, metadata)
    assert mentioned in names
    assert not {"date", "payee", "from", "subject"} & names.keys()


def test_repeated_runs_are_names_in_scripts_without_capitals() -> None:
    names = names_of("长江大桥建于1957年。长江大桥很长。", {})
    assert "长 江 大 桥" in names
    assert "江 大" not in names


def test_a_name_is_found_in_a_very_long_question(kb: KnowledgeBase) -> None:
    kb.add(PASSAGES, split=False)
    question = f"{QUESTION} {'alpha beta of gamma Delta is ' * 10_000}"
    passages = kb.as_retriever(k=2, mode="graph").invoke(question)
    assert {doc.id for doc in passages} == {"Tin Harbour (song)", "Mara Ødegård"}


def test_a_filter_holds_for_seeds_and_for_what_they_reach(kb: KnowledgeBase) -> None:
    kb.add(PASSAGES, split=False)
    kb.add(Document("Tin Harbour was sung by Bob Ray.", metadata={"title": "Tin Harbour", "lang": "en"}))
    kb.add(Document("Born in 1950.", id="ray", metadata={"title": "Bob Ray", "lang": "en"}))
    chosen = kb.as_retriever(5, "graph", filter={"lang": "en"}).invoke(QUESTION)
    assert [doc.metadata["title"] for doc in chosen] == ["Tin Harbour", "Bob Ray"]


def test_chinese_titles_lead_on(kb: KnowledgeBase) -> None:
    pages = {
        "锡港": "锡港是歌手林玛拉的一首歌曲。",
        "林玛拉": "一九六一年五月三日出生,教授音乐。",
        "歌曲": "歌曲是由人声演唱的音乐作品。",
        "出生": "出生是一个人来到世上的日子。",
    }
    kb.add([Document(text, id=title, metadata={"title": title}) for title, text in pages.items()])
    assert top_passages(kb, "歌曲锡港的歌手什么时候出生?") == ["锡港", "林玛拉"]


def test_a_passage_that_the_question_names_leads_on_although_others_share_more_words(kb: KnowledgeBase) -> None:
    pages = {
        "Hello Love": f"It was first performed by Ada Brenner. {'It has a slow verse with horns and strings. ' * 8}",
        "Ada Brenner": "She was born by the sea.",
        "A1": "Who leads the town lives in the town, as the singer of the song knows.",
        "A2": "The singer of the song leads the town in which the song lives.",
        "A3": "In the town lives the singer who leads the song.",
    }
    kb.add([Document(text, id=title, metadata={"title": title}) for title, text in pages.items()], split=False)
    question = "Who leads the town in which the singer of the song Hello Love lives?"
    words = [doc.id for doc in kb.as_retriever(6, "bm25").invoke(question)]
    assert words.index("Hello Love") >= 3
    docs = {doc.id: doc for doc in kb.as_retriever(6, "graph").invoke(question)}
    assert docs["Ada Brenner"].metadata["via"] == {
        "name": "Ada Brenner",
        "passage": "Hello Love",
        "heading": "Hello Love",
    }


def test_a_table_joins_by_its_keys(kb: KnowledgeBase, tmp_path: Path) -> None:
    (tmp_path / "parts.csv").write_text("part,maker\nKX-7741-B,M-20\nKX-7742-C,M-31\n")
    (tmp_path / "makers.csv").write_text("id,town\nM-20,Vell\nM-31,Oslo\nM-32,Bergen\n")
    kb.index_paths([tmp_path / "parts.csv", tmp_path / "makers.csv"])
    texts = [doc.page_content for doc in kb.as_retriever(2, "graph").invoke("From where does part KX-7742-C come?")]
    assert [text.splitlines()[0] for text in texts] == ["part: KX-7742-C", "id: M-31"]


def test_the_tables_are_those_of_the_passages_there_are(kb: KnowledgeBase) -> None:
    kb.add(PASSAGES, split=False)
    at_once = names(kb)
    kb.delete([str(doc.id) for doc in PASSAGES[3:]])
    kb.add(Document("Ann Lee met Bob Ray.", id="other"))
    kb.delete("other")
    for doc in PASSAGES[3:]:
        kb.add(doc, split=False)
    assert names(kb) == at_once
    kb.rebuild()
    assert names(kb) == at_once
    kb.delete(source="added")
    assert names(kb) == []


def names(kb: KnowledgeBase) -> list[tuple[object, ...]]:
    db = sqlite3.connect(kb.path / FILE)
    sql = (
        "SELECT n.text, n.passages, m.about, p.name FROM names n LEFT JOIN mentions m ON m.name = n.id "
        "LEFT JOIN passages p ON p.id = m.passage ORDER BY 1, 3, 4"
    )
    rows = db.execute(sql).fetchall()
    db.close()
    return rows
