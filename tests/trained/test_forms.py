"""The text forms that trained parts read and write."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from ragweave.nodes.proxy import Verdict
from ragweave.trained.forms import (
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


@given(texts, st.lists(texts, max_size=3))
def test_each_passage_is_one_line(question, passages):
    given_passages = [Document(page_content=text) for text in passages]
    lines = filter_input(question, given_passages).text.split("\n")
    assert len(lines) == 3 + max(1, len(passages))
    asked = generator_input(question, given_passages).text.split("\n")
    assert len(asked) == 3 + len(passages)
    assert asked[-1].startswith("question: ")


def test_verdicts_are_what_the_judges_node_reads():
    assert Verdict.from_text(verdict(True)).known == "True"
    assert Verdict.from_text(verdict(False)).known == "False"


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
    asked = "Given the ['context', 'question'], predict the answer to the question."
    kept = generator_input("q?", kept_passages(passages, [span])).text
    assert kept == f"{asked}\n\ncontext: Rome is big.\nquestion: q?"
    whole = generator_input("q?", kept_passages(passages, [])).text
    assert whole == f"{asked}\n\ncontext: Rome is big. Pizza is good.\nOslo is far.\nquestion: q?"
    assert generator_input("q?", kept_passages(passages, [], may_be_none=True)).text == (
        "Given the ['question'], predict the answer to the question.\n\nquestion: q?"
    )
