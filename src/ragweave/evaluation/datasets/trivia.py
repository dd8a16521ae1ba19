"""TriviaQA and WebQuestions in their owners' forms.

Sources: Joshi et al. 2017 (one object, `Data` with `Question` and `Answer`); Berant et al. 2013
(`utterance`, `targetValue` as a Lisp list; or `qText`, `answers`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragweave.evaluation.datasets.format import Format, has
from ragweave.evaluation.datasets.question import Question
from ragweave.evaluation.datasets.rows import Row

_DESCRIPTION = re.compile(r'\(description (?:"([^"]*)"|([^\s()]+))\)')


def _read_trivia(row: Row) -> Iterator[Question]:
    for one in row.items("Data"):
        answer = one.value("Answer")
        if not isinstance(answer, dict):
            raise one.fault("'Answer' must be an object")
        inner = Row(answer, one.where, one.number)
        aliases = [str(alias) for alias in answer.get("Aliases") or ()]
        texts = dict.fromkeys([inner.text("Value"), *filter(str.strip, aliases)])
        yield Question(id=one.id("QuestionId"), question=one.text("Question"), answers=tuple(texts))


def _read_web(row: Row) -> Iterator[Question]:
    if "qText" in row.fields:
        answers = row.texts("answers")
    else:
        found = _DESCRIPTION.findall(row.text("targetValue"))
        answers = tuple(dict.fromkeys(quoted or bare for quoted, bare in found))
        if not answers:
            raise row.fault("gold is missing: 'targetValue' holds no description")
    yield Question(id=row.id("qId"), question=row.text("utterance", "qText"), answers=answers)


TRIVIAQA = Format(
    name="triviaqa",
    summary="TriviaQA: answers with aliases.",
    datasets=("triviaqa",),
    expects="one object with Data, a list of Question, QuestionId and Answer",
    fits=has("Data"),
    read=_read_trivia,
)
WEBQUESTIONS = Format(
    name="webquestions",
    summary="WebQuestions, in either form.",
    datasets=("webquestions",),
    expects="utterance and targetValue, or qText and answers",
    fits=lambda fields: (
        {"utterance", "targetValue"} <= fields.keys() or {"qText", "answers"} <= fields.keys()
    ),
    read=_read_web,
)
