"""Questions that come with the paragraphs that answer them.

SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018), QED (Lamm et al. 2021), and multi-hop questions:
HotpotQA (Yang et al. 2018, distractor setting), 2WikiMultihopQA (Ho et al. 2020), MuSiQue (Trivedi et
al. 2022).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.documents import Document

from ragweave.datasets.open_qa import read_plain
from ragweave.datasets.question import (
    Format,
    Question,
    about,
    answered,
    answers_of,
    id_of,
    marked,
    passage,
    passages_of,
    unique,
)
from ragweave.datasets.rows import Row


def read_squad(row: Row) -> Iterator[Question]:
    """Read SQuAD: one object with `data`, or rows."""
    if not row.has("data"):
        yield from _squad_row(row) if isinstance(row.get("context"), str) else read_plain(row)
    for article in row.rows("data"):
        title = str(article.get("title") or "")
        for paragraph in article.rows("paragraphs"):
            shared = {"context": paragraph.text("context"), "title": title}
            for one in paragraph.rows("qas"):
                yield from _squad_row(Row({**one.fields, **shared}, one.where, one.number))


def _squad_row(row: Row) -> Iterator[Question]:
    context = passage(row.text("context"), str(row.get("title") or "").replace("_", " "))
    yield Question(
        id=id_of(row),
        question=row.text("question"),
        answers=() if row.get("is_impossible") else answers_of(row, "answers", "golden_answers"),
        passages=(context,),
        gold=marked([context]),
    )


def read_qed(row: Row) -> Iterator[Question]:
    """Read QED: Natural Questions over one paragraph."""
    context = passage(row.text("paragraph_text"), str(row.get("title_text") or ""))
    yield Question(
        id=id_of(row),
        question=row.text("question_text"),
        answers=answered(row, "original_nq_answers"),
        passages=(context,),
        gold=marked([context]),
        about={"selected": [str(one)] if (one := _selected(row)) else []},
    )


def _selected(row: Row) -> str:
    """Return the sentence that the annotators of QED selected."""
    found = (row.get("annotation") or {}).get("selected_sentence") or {}
    start, end = found.get("start"), found.get("end")
    whole = isinstance(start, int) and isinstance(end, int)
    return row.text("paragraph_text")[start:end] if whole else ""


def read_hotpotqa(row: Row) -> Iterator[Question]:
    """Read HotpotQA and 2WikiMultihopQA."""
    if not row.has("context"):
        yield from read_plain(row)
        return
    facts = {(str(title), number) for title, number in _pairs(row, "supporting_facts", "title", "sent_id")}
    titles, passages, selected = {title for title, _ in facts}, list[Document](), list[str]()
    for title, sentences in _pairs(row, "context", "title", "sentences", "content"):
        if not isinstance(sentences, list):
            raise row.error("'context' must be a list of [title, sentences]")
        said = [str(one or "").strip() for one in sentences]
        selected += [one for at, one in enumerate(said) if one and (str(title), at) in facts]
        if text := " ".join(filter(None, said)):
            passages.append(passage(text, str(title)))
    yield Question(
        id=id_of(row),
        question=row.text("question"),
        answers=answered(row, "answer", "answers", "golden_answers"),
        passages=unique(passages),
        gold=marked(doc for doc in passages if doc.metadata.get("title") in titles),
        about={**about(row, "type", "level"), "selected": selected},
    )


def _pairs(row: Row, name: str, first: str, *second: str) -> Iterator[tuple[Any, Any]]:
    """Yield the pairs of `[[a, b], …]`, of `{a: […], b: […]}`, or of either as JSON."""
    found = row.json(name)
    if isinstance(found, Mapping):
        columns = [found.get(first), next((found[one] for one in second if one in found), None)]
        if not all(isinstance(one, list) for one in columns):
            raise row.error(f"{name!r} must have the lists {first!r} and {second[0]!r}")
        yield from zip(*columns, strict=False)
        return
    for pair in found if isinstance(found, list) else ():
        if not isinstance(pair, list) or len(pair) != 2:
            raise row.error(f"{name!r} must be a list of [{first}, {second[0]}]")
        yield pair[0], pair[1]


def read_musique(row: Row) -> Iterator[Question]:
    """Read MuSiQue; in MuSiQue-Full half of the questions have no answer."""
    passages, gold = passages_of(row, "paragraphs", "ctxs")
    possible = bool(row.fields.get("answerable", True))
    yield Question(
        id=id_of(row),
        question=row.text("question"),
        answers=answered(row, "answer", "answers", "golden_answers") if possible else (),
        passages=passages,
        gold=gold,
        about=about(row, "question_decomposition"),
    )


_HOTPOT = (("context", "supporting_facts"),)
FORMATS = (
    Format("hotpotqa", "HotpotQA: paragraphs and supporting facts.", read_hotpotqa, _HOTPOT),
    Format("2wiki", "2WikiMultihopQA, in the same form.", read_hotpotqa),
    Format("musique", "MuSiQue: paragraphs and the decomposition.", read_musique, (("question_decomposition",),)),
    Format("squad", "SQuAD 1.1 and 2.0.", read_squad, (("data",), ("context", "question", "answers"))),
    Format("qed", "QED: Natural Questions over one paragraph.", read_qed, (("question_text", "paragraph_text"),)),
)
