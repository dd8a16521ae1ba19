"""Whatever is wrong with a row of any format, it is read or refused in one line that says where."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.datasets.test_formats import ASQA, CLAPNQ, HOTPOT, MUSIQUE, SQUAD

from ragweave.datasets.dataset import FORMATS
from ragweave.datasets.plain import plain
from ragweave.datasets.rows import Row
from ragweave.errors import UsageError

QED = {
    "example_id": 1,
    "title_text": "T",
    "question_text": "q",
    "paragraph_text": "One. Two.",
    "sentence_starts": [0, 5],
    "original_nq_answers": [[{"string": "two"}]],
    "annotation": {"selected_sentence": {"start": 5}},
}
CTX = {"title": "T", "text": "t", "score": 1.0, "hasanswer": True}
WHOLE: dict[str, Any] = {
    "hotpotqa": HOTPOT,
    "musique": MUSIQUE,
    "squad": SQUAD,
    "asqa": {"id": "a", **ASQA["dev"]["7"]},
    "strategyqa": {"qid": "s", "question": "q", "answer": True, "facts": ["f"], "term": "X"},
    "triviaqa": {
        "Data": [{"QuestionId": "t", "Question": "q", "Answer": {"Value": "x", "Aliases": ["y"]}}]
    },
    "webquestions": {"utterance": "q", "targetValue": "(list (description Varn))"},
    "popqa": {"id": 1, "question": "q", "possible_answers": ["x"], "paragraphs": [CTX]},
    "fool_me_twice": {
        "id": "f",
        "text": "c",
        "label": "SUPPORTS",
        "gold_evidence": [{"text": "e", "section_header": "s"}],
        "retrieved_evidence": [{"text": "f"}],
    },
    "fever": {"id": 1, "claim": "c", "label": "REFUTES"},
    "qed": QED,
    "skr": {"Id": 1, "Question": "q", "Gold answer": ["x"], "passages": [[['"T u"\nt']]]},
    "clapnq": CLAPNQ,
    "eli5": {"q_id": "e", "title": "q", "answers": {"text": ["x y"]}, "selftext": "more"},
    "recorded": {
        "id": "r",
        "question": "q",
        "answers": ["x"],
        **{key: {"answer": "x", "said": ["x"]} for key in ("no_retrieval", "one_round", "ircot")},
    },
    "dpr": {"question": "q", "answers": ["x"], "ctx": CTX, "ctxs": [CTX], "positive_ctxs": [CTX]},
    "nq_open": {"question": "q", "answer": ["x"]},
    "kilt": {
        "id": "k",
        "input": "q",
        "output": [{"answer": "x", "provenance": [{"title": "T", "text": "t"}]}],
    },
    "jsonl": {"question": "q", "answers": ["x"], "passages": [{"title": "T", "text": "t"}]},
}
LACKING = object()
ODD: tuple[Any, ...] = (LACKING, None, "", " ", "word", 7, 0.5, True, [], {}, ["word"], [None])


def variants(value: Any) -> Iterator[Any]:
    """Yield `value` with each part of it, however deep, replaced or left out."""
    yield from ODD
    parts = enumerate(value) if isinstance(value, list) else ()
    for key, part in value.items() if isinstance(value, dict) else parts:
        for odd in variants(part):
            copy = value.copy()
            if odd is LACKING:
                del copy[key]
            else:
                copy[key] = odd
            yield copy


@pytest.mark.parametrize("name", WHOLE)
def test_a_row_is_read_or_refused_in_one_line_whatever_is_wrong_with_it(name: str) -> None:
    form = FORMATS[name] if name in FORMATS else plain(name, {})
    assert [one for one in form.read(Row(WHOLE[name], "f:1", 1)) if one.question]
    for fields in variants(WHOLE[name]):
        if not isinstance(fields, dict):
            continue
        form.fits(fields)
        try:
            read = list(form.read(Row(fields, "f:1", 1)))
        except UsageError as error:
            assert str(error).startswith("f:1")
            assert "\n" not in str(error)
        else:
            answers = [text for one in read for text in (*one.answers, *sum(one.answer_sets, ()))]
            assert not {"None", "", "{}", "[]", "True"} & set(answers), fields
            texts = [doc.page_content for one in read for doc in one.passages]
            assert not {"None", "", "{}", "[]", "[None]"} & set(texts), fields
