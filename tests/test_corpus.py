"""The bundled articles keep their form, and the questions about them can be answered from them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import bm25s
import pytest
import Stemmer

from ragweave.corpus import corpus_path
from ragweave.tools.text.words import normalize_answer, split_sentences, words

TOP = 5
LONGEST_LINE = 260


@dataclass(frozen=True)
class Article:
    name: str
    title: str
    paragraphs: list[str]

    @property
    def body(self) -> str:
        return "\n\n".join(self.paragraphs)


def read(path: Path) -> Article:
    heading, *paragraphs = path.read_text(encoding="utf-8").strip().split("\n\n")
    match = re.fullmatch(r"# (\S.*)", heading)
    assert match, f"{path.name}: the first line is no '# Title' heading of its own"
    return Article(path.name, match[1], paragraphs)


def holds(text: str, phrase: str) -> bool:
    """Whether the words of `phrase` stand in `text` in a row, after answer normalisation."""
    wanted = normalize_answer(phrase)
    return bool(wanted) and f" {wanted} " in f" {normalize_answer(text)} "


ARTICLES = {path.name: read(path) for path in sorted(corpus_path().glob("*.md"))}
QUESTIONS = [
    json.loads(line) for line in (Path(__file__).parent / "corpus_questions.jsonl").read_text("utf-8").splitlines()
]
each_article = pytest.mark.parametrize("article", ARTICLES.values(), ids=list(ARTICLES))


def test_there_are_enough_articles_and_questions() -> None:
    assert len(ARTICLES) >= 55
    assert len(QUESTIONS) >= 60


def test_titles_are_unique() -> None:
    titles = [article.title.casefold() for article in ARTICLES.values()]
    assert len(set(titles)) == len(titles)


@each_article
def test_file_is_named_after_the_title(article: Article) -> None:
    slug = re.sub(r"[^a-z0-9]+", "-", article.title.lower()).strip("-")
    assert article.name == f"{slug}.md"


@each_article
def test_length_is_80_to_220_words_in_at_most_three_paragraphs(article: Article) -> None:
    assert 80 <= len(words(article.body)) <= 220
    assert 1 <= len(article.paragraphs) <= 3


@each_article
def test_first_sentence_defines_the_title(article: Article) -> None:
    first = split_sentences(article.body)[0].text
    assert holds(first, article.title)
    assert re.search(r"\b(is|are)\b", first)


@each_article
def test_each_line_is_one_plain_sentence(article: Article) -> None:
    for line in article.body.splitlines():
        assert len(line) <= LONGEST_LINE, line
        if line:
            assert line[-1] in '.?"', line
            assert not re.match(r"\s|[-+*>#|]|\d+[.)] ", line), f"Markdown, not a sentence: {line}"
            assert len(split_sentences(line)) == 1, line


def test_no_sentence_stands_in_two_articles() -> None:
    sentences = [line for a in ARTICLES.values() for line in a.body.splitlines() if line]
    assert len(set(sentences)) == len(sentences)


@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda asked: asked["question"][:60])
def test_every_accepted_answer_stands_in_its_article(asked: dict[str, object]) -> None:
    assert set(asked) == {"question", "answers", "article", "type"}
    assert asked["type"] in {"short", "yes_no", "long"}
    answers = asked["answers"]
    assert isinstance(answers, list)
    assert answers
    missing = [a for a in answers if not holds(ARTICLES[str(asked["article"])].body, a)]
    assert not missing
    if asked["type"] == "yes_no":
        assert [a.lower() for a in answers] in (["yes"], ["no"])


def test_questions_are_unique_and_cover_every_article() -> None:
    texts = [asked["question"] for asked in QUESTIONS]
    assert len(set(texts)) == len(texts)
    assert all(text.endswith("?") for text in texts)
    assert {asked["article"] for asked in QUESTIONS} == set(ARTICLES)


def test_bm25_finds_the_article_of_most_questions() -> None:
    stemmer = Stemmer.Stemmer("english")
    names = list(ARTICLES)

    def tokens(texts: list[str]) -> list[list[str]]:
        return [stemmer.stemWords(words(text)) for text in texts]

    index = bm25s.BM25()
    index.index(tokens([f"{a.title}\n{a.body}" for a in ARTICLES.values()]), show_progress=False)
    queries = tokens([asked["question"] for asked in QUESTIONS])
    found, _ = index.retrieve(queries, k=TOP, show_progress=False)
    missed = [
        asked["question"]
        for asked, hits in zip(QUESTIONS, found, strict=True)
        if asked["article"] not in {names[hit] for hit in hits}
    ]
    assert len(missed) <= 0.15 * len(QUESTIONS), "\n".join(missed)
