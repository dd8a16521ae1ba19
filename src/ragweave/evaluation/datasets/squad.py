"""SQuAD 1.1 and 2.0: one object whose articles hold paragraphs and their questions.

Sources: Rajpurkar et al. 2016, Rajpurkar et al. 2018.
"""

from __future__ import annotations

from collections.abc import Iterator

from ragweave.evaluation.datasets.format import Format, has
from ragweave.evaluation.datasets.question import Question, passage
from ragweave.evaluation.datasets.rows import Row


def _read(row: Row) -> Iterator[Question]:
    for article in row.items("data"):
        title = str(article.fields.get("title") or "").replace("_", " ")
        for paragraph in article.items("paragraphs"):
            context = passage(paragraph.text("context"), title, gold=True)
            for one in paragraph.items("qas"):
                answerable = not one.fields.get("is_impossible", False)
                texts = [gold.text("text") for gold in one.items("answers")] if answerable else []
                if answerable and not texts:
                    raise one.fault(
                        "gold is missing: 'answers' is empty and 'is_impossible' not set"
                    )
                yield Question(
                    id=one.text("id"),
                    question=one.text("question"),
                    answers=tuple(dict.fromkeys(texts)),
                    passages=(context,),
                    answerable=answerable,
                )


SQUAD = Format(
    name="squad",
    summary="SQuAD 1.1 and 2.0: questions nested below paragraphs.",
    datasets=("squad",),
    expects="one object with data, a list of articles with paragraphs (context, qas)",
    fits=has("data"),
    read=_read,
)
