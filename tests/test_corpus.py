"""The questions about the bundled articles can be answered from them."""

from __future__ import annotations

import json
from pathlib import Path

from ragweave.corpus import corpus_documents, corpus_path
from ragweave.tools.retrieval import Bm25Retriever
from ragweave.tools.text.words import normalize_answer

LINES = (Path(__file__).parent / "corpus_questions.jsonl").read_text("utf-8").splitlines()
QUESTIONS = [json.loads(line) for line in LINES]


def test_every_accepted_answer_stands_in_its_article() -> None:
    for row in QUESTIONS:
        article = f" {normalize_answer((corpus_path() / row['article']).read_text('utf-8'))} "
        assert row["answers"], row
        assert all(f" {normalize_answer(answer)} " in article for answer in row["answers"]), row


def test_bm25_finds_the_article_of_most_questions() -> None:
    documents = corpus_documents()
    assert len({doc.metadata["title"] for doc in documents}) == len(documents)
    retriever = Bm25Retriever.from_documents(documents)
    missed = [
        row["question"]
        for row in QUESTIONS
        if row["article"] not in {doc.metadata["source"] for doc in retriever.invoke(row["question"], k=5)}
    ]
    assert len(missed) <= 0.15 * len(QUESTIONS), "\n".join(missed)
