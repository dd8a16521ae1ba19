"""Chunkers over long documents: what search finds, and whether quotes are whole sentences.

    python benchmarks/chunkers.py [--limit N] [--corpora squad,qed] [--chunkers fixed,sentences] [--embedding minilm]
                                  [--model llamacpp:FILE --cache replies.sqlite]

Five corpora. `squad`: articles of SQuAD 2.0; `clapnq` and `qed`: 20 passages of Wikipedia to a document, under headings;
`packages`: the descriptions of installed packages; `sklearn`: docstrings of scikit-learn. The first three have people's
questions and the sentence that answers; in the others a question is made from a heading or the name of a parameter, and
the first sentence under it answers.

* recall: share of questions where one of the first five passages (BM25; with `--embedding`, hybrid) has all of the
  answering sentence;
* whole: share of the quotes that begin and end where a sentence of the document does;
* right: share of all questions for which the answering sentence is quoted, or a part of it.

Quotes are the answers by `extractive` (words alone, five passages); with `--model`, the best quote of each part of the
answer of `concat`, and its replies are kept in a file, from which a later call goes on.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import inspect
import json
import random
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.documents import Document

from ragweave import build_graph, chat_model
from ragweave.tools.knowledge import IndexSettings, KnowledgeBase
from ragweave.tools.models.extractive import best_evidence
from ragweave.tools.models.messages import TaskPassage
from ragweave.tools.replies import ReplyCache, asking
from ragweave.tools.text.words import split_sentences

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
CHUNKERS = ("fixed", "sentences", "headings", "recursive")
K = 5


class Corpus(NamedTuple):
    documents: dict[str, str]
    questions: list[tuple[str, str, str]]
    """Question, document, and the sentence that answers."""


def rows(path: str) -> Iterator[dict[str, Any]]:
    with gzip.open(DATA / path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def sentence_at(text: str, at: int) -> str:
    return next((part.text for part in split_sentences(text) if part.start <= at < part.end), "")


def squad() -> Corpus:
    with gzip.open(DATA / "abstain/squad2-dev-sample.json.gz", "rt", encoding="utf-8") as file:
        articles = json.load(file)["data"]
    documents, questions = {}, []
    for article in articles:
        documents[article["title"]] = "\n\n".join(part["context"] for part in article["paragraphs"])
        for part in article["paragraphs"]:
            for asked in part["qas"]:
                if asked["answers"]:
                    gold = sentence_at(part["context"], asked["answers"][0]["answer_start"])
                    questions.append((asked["question"], article["title"], gold))
    return Corpus(documents, questions)


def joined(passages: list[tuple[str, str, str, str]]) -> Corpus:
    """Join 20 passages (title, text, question, gold) to a document."""
    documents, questions = {}, []
    for first in range(0, len(passages), 20):
        group, name = passages[first : first + 20], f"part {first // 20}"
        documents[name] = "\n\n".join(f"# {title}\n\n{text}" for title, text, *_ in group)
        questions += [(question, name, gold) for *_, question, gold in group]
    return Corpus(documents, questions)


def clapnq() -> Corpus:
    passages = []
    for row in rows("filter/clapnq-answerable.jsonl.gz"):
        given, chosen = row["passages"][0], row["output"][0]["selected_sentences"]
        gold = next((sentence for sentence in given["sentences"] if sentence in chosen), "")
        passages.append((given["title"], given["text"], row["input"], gold.strip()))
    return joined(passages)


def qed() -> Corpus:
    passages = []
    for row in rows("filter/qed-dev.jsonl.gz"):
        if row["annotation"]["explanation_type"] == "single_sentence":
            gold = row["annotation"]["selected_sentence"]["string"]
            passages.append((row["title_text"], row["paragraph_text"], row["question_text"], gold.strip()))
    return joined(passages)


def packages() -> Corpus:
    documents, questions = {}, []
    for name, text in sorted((dist.name, dist.metadata.get_payload()) for dist in distributions()):
        if isinstance(text, str) and len(text) > 6_000:
            documents[name] = text
            for head, body in re.findall(r"^#{2,4} +([^\n#`\[\]]{8,60})\n+([A-Z][^\n]{40,})", text, re.MULTILINE):
                questions.append((f"{name}: {head.strip()}?", name, split_sentences(body)[0].text))
    return Corpus(documents, questions)


def sklearn() -> Corpus:
    documents, questions = {}, []
    for module in ("cluster", "decomposition", "ensemble", "linear_model", "neighbors", "preprocessing", "svm", "tree"):
        members = importlib.import_module(f"sklearn.{module}")
        for name in members.__all__:
            text = inspect.getdoc(getattr(members, name)) or ""
            if len(text) > 2_000:
                documents[name] = text
                for parameter, body in re.findall(r"^(\w{4,}) : [^\n]+\n+ +([A-Z][^\n]+(?:\n +\S[^\n]*)*)", text, re.M):
                    gold = split_sentences(body)[0].text
                    questions.append((f"What is {parameter} of {name}?", name, gold))
    return Corpus(documents, questions)


CORPORA = {"squad": squad, "clapnq": clapnq, "qed": qed, "packages": packages, "sklearn": sklearn}


def flat(text: str) -> str:
    return " ".join(text.split())


Quotes = Callable[[str, list[Document]], list[tuple[str, str]]]
"""Quotes a question's passages: the file and the sentence of each quote."""


def extracted(question: str, docs: list[Document]) -> list[tuple[str, str]]:
    given = [TaskPassage(id=doc.id or "", title=doc.metadata["title"], text=doc.page_content) for doc in docs]
    best = best_evidence(question, given, encoder=False)[:1]
    return [(docs[evidence.passage].metadata["source"], evidence.text) for evidence in best]


def answered(spec: str, cache: Path) -> Quotes:
    graph = build_graph("concat", model=ReplyCache(cache).attach(chat_model(spec), spec), citations=True)

    def quotes(question: str, docs: list[Document]) -> list[tuple[str, str]]:
        with asking():
            output = graph.invoke({"question": question, "passages": docs})
        best = [part["quotes"][0] for part in output["citations"] if part["quotes"]]
        return [(quote["file"], quote["text"]) for quote in best]

    return quotes


def measure(corpus: Corpus, chunker: str, embedding: str | None, quote: Quotes) -> list[float]:
    """Return passages, recall, whole and right."""
    sentences = {name: {flat(part.text) for part in split_sentences(text)} for name, text in corpus.documents.items()}
    settings, mode = IndexSettings(chunker=chunker, embedding=embedding), "hybrid" if embedding else "bm25"
    with tempfile.TemporaryDirectory() as folder, KnowledgeBase.create(Path(folder, "kb"), settings=settings) as kb:
        for name, text in corpus.documents.items():
            Path(folder, f"{name}.md").write_text(text, "utf-8")
        kb.index_paths(Path(folder).glob("*.md"))
        retriever, hits, right, whole = kb.as_retriever(K, mode), 0, 0, list[bool]()
        for question, _, gold in corpus.questions:
            docs = retriever.invoke(question)
            hits += any(flat(gold) in flat(doc.page_content) for doc in docs)
            quotes = quote(question, docs)
            whole += [flat(text) in sentences[Path(file).stem] for file, text in quotes]
            right += any(flat(text) in flat(gold) or flat(gold) in flat(text) for _, text in quotes)
        total, count = len(corpus.questions), len(kb)
    return [count, *(round(100 * part, 1) for part in (hits / total, sum(whole) / max(len(whole), 1), right / total))]


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--limit", type=int, default=150, help="questions of each corpus")
    parser.add_argument("--corpora", default=",".join(CORPORA))
    parser.add_argument("--chunkers", default=",".join(CHUNKERS))
    parser.add_argument("--embedding", help="search by vectors, too: minilm")
    parser.add_argument("--model", help="spec of a model that answers, instead of `extractive`")
    parser.add_argument("--cache", type=Path, default=Path("replies.sqlite"), help="file of the model's replies")
    chosen = parser.parse_args()
    quote = answered(chosen.model, chosen.cache) if chosen.model else extracted
    print(
        f"{time.strftime('%Y-%m-%d')}\n| corpus | chunker | passages | recall@5 | whole | right |\n|---|---|---:|---:|---:|---:|"
    )
    for name in chosen.corpora.split(","):
        documents, questions = CORPORA[name]()
        questions = [asked for asked in questions if asked[2]]
        random.Random(7).shuffle(questions)
        for chunker in chosen.chunkers.split(","):
            cells = measure(Corpus(documents, questions[: chosen.limit]), chunker, chosen.embedding, quote)
            print("|", " | ".join(map(str, [name, chunker, *cells])), "|", flush=True)


if __name__ == "__main__":
    main()
