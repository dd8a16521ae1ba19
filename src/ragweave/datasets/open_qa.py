"""Open-domain question answering: short answers, with retrieved passages or without.

NQ-open (Lee et al. 2019), TriviaQA (Joshi et al. 2017), WebQuestions (Berant et al. 2013), PopQA (Mallen
et al. 2023), the retriever outputs of DPR (Karpukhin et al. 2020) and FiD (Izacard and Grave 2021), the
released questions of SKR (Wang et al. 2023), and any other row that has a question and answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from ragweave.datasets.question import (
    Format,
    Question,
    about,
    answered,
    id_of,
    marked,
    passages_of,
    unique,
)
from ragweave.datasets.rows import Row

QUESTION = ("question", "query", "user_input", "input", "Question", "Prompt", "utterance", "qText")
ANSWERS = ("answers", "answer", "golden_answers", "gold", "reference", "Gold answer", "Answer", "possible_answers")
_LISTS = ("passages", "ctxs", "contexts", "retrieved_contexts", "documents", "paragraphs", "ctx")


def read_plain(row: Row) -> Iterator[Question]:
    """Read any row that has a question: with answers, passages and aliases if it has them."""
    if row.has("input", "output"):
        from ragweave.datasets.claims import read_kilt

        yield from read_kilt(row)
        return
    passages, gold = passages_of(row, *_LISTS)
    if row.has("positive_ctxs"):
        right, _ = passages_of(row, "positive_ctxs")
        wrong = [passages_of(row, one)[0] for one in ("negative_ctxs", "hard_negative_ctxs")]
        passages, gold = unique(chain(right, *wrong)), marked(right)
    yield Question(
        id=id_of(row),
        question=row.text(*QUESTION),
        answers=answered(row, *ANSWERS),
        passages=passages,
        gold=gold,
        about=about(row, "dataset", "metadata", "subj", "prop", "s_pop", "o_pop"),
    )


def read_triviaqa(row: Row) -> Iterator[Question]:
    """Read TriviaQA: one object with `Data`, or rows."""
    if not row.has("Data"):
        yield from read_plain(row)
    for one in row.rows("Data"):
        yield Question(id=one.text("QuestionId"), question=one.text("Question"), answers=answered(one, "Answer"))


_DESCRIPTION = re.compile(r'\(description (?:"((?:[^"\\]|\\.)*+)"|([^\s()]+))\)')


def read_webquestions(row: Row) -> Iterator[Question]:
    """Read WebQuestions: rows, or the authors' lists in Lisp."""
    if row.has("targetValue"):
        said = (quoted or bare for quoted, bare in _DESCRIPTION.findall(row.text("targetValue")))
        row = Row({**row.fields, "answers": [re.sub(r"\\(.)", r"\1", one) for one in said]}, row.where, row.number)
    yield from read_plain(row)


FORMATS = (
    Format("jsonl", "Any rows with a question and answers; passages and aliases if there are some.", read_plain),
    Format("csv", "The same, as a table.", read_plain),
    Format("tsv", "The same, as a table.", read_plain),
    Format("nq", "Natural Questions, open; DPR's and FiD's files too.", read_plain),
    Format("dpr", "The retriever outputs of DPR, Contriever and ALCE.", read_plain, (("positive_ctxs",),)),
    Format("webquestions", "WebQuestions.", read_webquestions, (("utterance", "targetValue"),)),
    Format("triviaqa", "TriviaQA: answers with aliases.", read_triviaqa, (("Data",),)),
    Format("popqa", "PopQA: long-tail entities with their popularity.", read_plain, (("possible_answers",),)),
    Format("skr", "The released questions of SKR, with passages.", read_plain, (("Gold answer",),)),
)
