"""The text forms that trained parts read and write."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from ragweave.nodes.context_filter import context_text as context_of_the_node
from ragweave.tools.claims import parse_judgement
from ragweave.trained.forms import (
    context_text,
    documents,
    filter_input,
    filter_target,
    generator_input,
    judge_input,
    kept_passages,
    verdict,
)

texts = st.text(max_size=60)


@given(texts, texts)
def test_a_judges_input_is_two_lines_however_odd_the_draft(question, draft):
    text = judge_input(question, draft).text
    assert len(text.split("\n")) == 2
    first, second = text.split("\n")
    assert first.startswith("Coarse answer: ((")
    assert second.startswith("Question: ((")
    assert "))" not in first.removesuffix("))").removesuffix(")")[17:]


@given(texts, st.lists(st.tuples(texts, texts), max_size=3))
def test_no_passage_opens_a_line_of_its_own(question, passages):
    given_passages = [
        Document(page_content=text, metadata={"title": title}) for title, text in passages
    ]
    lines = filter_input(question, given_passages).text.split("\n")
    assert len(lines) == 1 + max(1, len(passages))
    asked = generator_input(question, given_passages).text.split("\n")
    assert len(asked) == 1 + bool(passages)
    assert asked[-1].startswith("question: ")


def test_verdicts_are_what_the_judges_node_reads():
    assert parse_judgement(verdict(True)) is True
    assert parse_judgement(verdict(False)) is False


def test_what_the_filter_writes_stands_in_what_it_read():
    text = "It <question> is  old. ((Rome)) is\nthe capital. The end."
    passage = {"id": "p", "title": "Italy", "text": text}
    start, end = text.index("(("), text.index(" The end")
    span = {"passage_id": "p", "start": start, "end": end, "text": text[start:end], "score": 1.0}
    told = filter_target([span])
    assert told == "( (Rome) ) is the capital."
    assert told in filter_input("q", documents([passage])).text
    assert filter_target([]) == ""


def test_the_generator_reads_what_is_kept_or_else_all():
    passages = documents(
        [
            {"id": "a", "title": "Italy", "text": "Rome is big. Pizza is good."},
            {"id": "b", "title": "", "text": "Oslo is far."},
        ]
    )
    span = {"passage_id": "a", "start": 0, "end": 12, "text": "Rome is big.", "score": 1.0}
    kept = generator_input("q?", kept_passages(passages, [span])).text
    assert kept == "context: Italy: Rome is big.\nquestion: q?"
    whole = generator_input("q?", kept_passages(passages, [])).text
    assert whole == ("context: Italy: Rome is big. Pizza is good. Oslo is far.\nquestion: q?")
    assert generator_input("q?", []).text == "question: q?"


def test_the_node_of_the_graph_uses_the_same_form():
    assert context_of_the_node is context_text
