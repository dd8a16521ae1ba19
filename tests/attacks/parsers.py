"""Every loader and parser of replies, passages, questions and files, as a function of one text.

A new parser is added here; `test_linear` and `test_hostile` then attack it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from langchain_core.documents import Document

from ragweave.nodes.astute import parse_memory, sourced
from ragweave.nodes.chain_of_note import parse_notes, read_noted
from ragweave.nodes.crag import strips_of
from ragweave.nodes.crag_reply import parse_grade, parse_keywords
from ragweave.nodes.flare import go_on
from ragweave.nodes.ircot import next_sentence
from ragweave.nodes.knowledge_filter import read_topic
from ragweave.nodes.numbering import Numbering
from ragweave.nodes.proxy import reference_text
from ragweave.nodes.react_reply import last_answer, parse_react
from ragweave.nodes.replies import bare_text, parse_answer
from ragweave.nodes.restate_reply import read_restated
from ragweave.nodes.retrieval_decision import parse_need
from ragweave.nodes.self_ask import final_answer, parse_self_ask
from ragweave.nodes.sufficiency import parse_sufficiency
from ragweave.nodes.sure_reply import parse_candidates, parse_preference, parse_validity
from ragweave.nodes.wording import numbered_passages, plain_chunks, wikipedia_pages
from ragweave.tools.citations import cite
from ragweave.tools.claims.events import breaks_off, json_breaks_off
from ragweave.tools.claims.ids import parse_ids
from ragweave.tools.claims.judgement import match_ratio, parse_judgement
from ragweave.tools.claims.rewrite import parse_rewrite
from ragweave.tools.extractive.chat import reader_for, reply
from ragweave.tools.extractive.question import analyse, terms
from ragweave.tools.filters.oracles import lexical, strinc
from ragweave.tools.filters.spans import spans_of
from ragweave.tools.knowledge.chunking import chunks
from ragweave.tools.knowledge.loaders import load
from ragweave.tools.knowledge.passages import Loaded, UnreadableError
from ragweave.tools.knowledge.settings import Settings
from ragweave.tools.models.tasks import Task, TaskName
from ragweave.tools.retrieval.analyzer import analyzer_for
from ragweave.tools.text.normalize import estimate_tokens, normalize_answer, words
from ragweave.tools.text.secrets import without_secrets
from ragweave.tools.text.sentences import split_sentences
from ragweave.tools.text.unknown import is_unknown
from ragweave.tools.text.untrusted import one_line, render_passages, untrusted
from ragweave.tools.trained.features import draft_features, hashed_words

Parser = Callable[[str], Any]

QUESTION = "What is the capital of Norland?"

REPLIES: dict[str, Parser] = {
    "bare_text": bare_text,
    "parse_answer short": lambda text: parse_answer(text, "short"),
    "parse_answer long": lambda text: parse_answer(text, "long"),
    "parse_answer yes_no": lambda text: parse_answer(text, "yes_no"),
    "parse_need": parse_need,
    "parse_react": lambda text: parse_react(text, "short"),
    "last_answer": lambda text: last_answer(text, "short"),
    "parse_self_ask first": lambda text: parse_self_ask(text, "short", first=True),
    "parse_self_ask": lambda text: parse_self_ask(text, "short", first=False),
    "final_answer": lambda text: final_answer(text, "short"),
    "read_topic": read_topic,
    "parse_ids": lambda text: parse_ids(text, 10),
    "parse_judgement": parse_judgement,
    "parse_rewrite": lambda text: parse_rewrite(text, QUESTION),
    "breaks_off": breaks_off,
    "json_breaks_off": json_breaks_off,
    "is_unknown": is_unknown,
    "parse_notes": lambda text: parse_notes(text, 1_000),
    "read_noted": lambda text: read_noted(text, "short"),
    "parse_memory": lambda text: parse_memory(text, 5),
    "parse_grade": parse_grade,
    "parse_keywords": lambda text: parse_keywords(text, QUESTION),
    "parse_candidates short": lambda text: parse_candidates(text, "short", 5),
    "parse_candidates long": lambda text: parse_candidates(text, "long", 5),
    "parse_validity": parse_validity,
    "parse_preference": parse_preference,
    "next_sentence": lambda text: next_sentence(text, ["Norland is a country."], "short"),
    "parse_sufficiency": parse_sufficiency,
    "read_restated": lambda text: read_restated(text, QUESTION, [QUESTION]),
    "go_on": go_on,
}
"""What reads a model's reply."""


def _task(name: TaskName, text: str, place: str) -> str:
    given: Task = {"task": name, "question": QUESTION}
    if place == "question":
        given["question"] = text
    passages = [{"id": "p", "title": "Norland", "text": "The capital of Norland is Eastport."}]
    if place == "passage":
        passages = [{"id": "p", "title": "Norland", "text": f"The capital of Norland {text}"}]
    if place == "title":
        passages[0]["title"] = text
    if place == "draft":
        given["draft"] = text
    if place == "candidates":
        given["candidates"] = [text, "Eastport"]
    given["passages"] = passages  # type: ignore[typeddict-item]
    return reply(given, reader_for("lexical", 0.0))


def _extractive(name: TaskName, place: str) -> Parser:
    return lambda text: _task(name, text, place)


def _document(text: str) -> Document:
    return Document(id="p", page_content=text, metadata={"title": text[:2_000]})


_NORLAND = _document("Norland lies by the sea. The capital of Norland is Eastport.")


def _cut(unit: str, chunker: str = "fixed") -> Parser:
    settings = Settings(unit=unit, chunker=chunker, embedding=None)
    return lambda text: chunks(Loaded(text), settings)


TEXTS: dict[str, Parser] = {
    "split_sentences": split_sentences,
    "split_sentences ja": lambda text: split_sentences(text, "ja"),
    "normalize_answer": normalize_answer,
    "words": words,
    "estimate_tokens": estimate_tokens,
    "untrusted": untrusted,
    "one_line": one_line,
    "without_secrets": without_secrets,
    "render_passages": lambda text: render_passages([_document(text)]),
    "reference_text": lambda text: reference_text([_document(text)]),
    "wikipedia_pages": lambda text: wikipedia_pages([_document(text)]),
    "numbered_passages": lambda text: numbered_passages([_document(text)]),
    "plain_chunks": lambda text: plain_chunks([_document(text)]),
    "numbered": lambda text: Numbering("Knowledge", first=0).render([_document(text)]),
    "sourced": lambda text: sourced([_document(text)]),
    "spans_of": lambda text: spans_of([_document(text)]),
    "strips_of": lambda text: strips_of([_document(text)], 3),
    "cite passage": lambda text: cite(QUESTION, "It is Eastport.", [_document(text)]),
    "cite answer": lambda text: cite(QUESTION, text, [_NORLAND], "long"),
    "cite question": lambda text: cite(text, "Eastport", [_NORLAND]),
    "cite all": lambda text: cite(text, text, [_document(text)], "long"),
    "restated question": lambda text: read_restated(text, text, [text]),
    "split words": _cut("words"),
    "split sentences": _cut("sentences"),
    "split tokens": _cut("tokens"),
    "split whole sentences": _cut("words", "sentences"),
    "split sections": _cut("words", "headings"),
    "analyzer": lambda text: analyzer_for("english").terms(text),
    "lexical": lambda text: lexical(text, QUESTION),
    "strinc": lambda text: strinc(text, [QUESTION]),
    "match_ratio": lambda text: match_ratio(text, [QUESTION, "x"]),
    "judge draft": lambda text: draft_features(QUESTION, text),
    "judge both": lambda text: draft_features(text, text),
    "judge words": lambda text: hashed_words(text, text),
    "extractive analyse": analyse,
    "extractive terms": terms,
    "extractive answer question": _extractive("answer", "question"),
    "extractive answer passage": _extractive("answer", "passage"),
    "extractive answer title": _extractive("answer", "title"),
    "extractive answer candidates": _extractive("answer", "candidates"),
    "extractive reason passage": _extractive("reason", "passage"),
    "extractive extract draft": _extractive("extract", "draft"),
    "extractive rewrite draft": _extractive("rewrite", "draft"),
    "extractive topic question": _extractive("topic", "question"),
    "extractive filter passage": _extractive("filter", "passage"),
}
"""What reads passages and questions."""

ROWS = {
    "jsonl text": ("x.jsonl", lambda text: _json_row("text", text)),
    "jsonl title": ("x.jsonl", lambda text: _json_row("title", text)),
    "jsonl raw": ("x.jsonl", lambda text: text),
    "csv raw": ("x.csv", lambda text: f"text,b\n{text}"),
    "csv header": ("x.csv", lambda text: f"text,{text}\n" + "a\n" * (len(text) // 8)),
    "tsv raw": ("x.tsv", lambda text: f"text\tb\n{text}"),
    "txt": ("x.txt", lambda text: text),
    "markdown": ("x.md", lambda text: text),
    "front matter": ("x.md", lambda text: f"---\n{text}\n---\n"),
    "markdown heading": ("x.md", lambda text: f"# a{text}b\nc"),
    "html": ("x.html", lambda text: text),
    "html body": ("x.html", lambda text: f"<html><body><p>a{text}"),
}
"""File name and content, by what reads them."""


def _json_row(field: str, text: str) -> str:
    import json

    return json.dumps({"text": "a", "id": 1, field: text})


def loader(name: str, folder: Path) -> Parser:
    """Return what writes a file and loads it."""
    file_name, content = ROWS[name]
    settings = Settings(embedding=None)

    def read(text: str) -> object:
        try:
            return list(load(folder / file_name, content(text).encode("utf-8", "replace"), settings))
        except UnreadableError as error:
            return error

    return read
