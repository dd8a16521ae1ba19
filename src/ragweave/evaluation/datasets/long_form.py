"""Long answers: ELI5 in its owners' form, and CLAPNQ.

Sources: Fan et al. 2019 (`title`, `answers` with `text` and `score`); Rosenthal et al. 2024
(`input`, `passages` as sentences, `output` with the selected sentences).
"""

from __future__ import annotations

from collections.abc import Iterator

from ragweave.evaluation.datasets.format import Format, has
from ragweave.evaluation.datasets.question import Question, passage
from ragweave.evaluation.datasets.rows import Row, only


def _read_eli5(row: Row) -> Iterator[Question]:
    answers = row.value("answers")
    texts = answers.get("text") if isinstance(answers, dict) else answers
    more = str(row.fields.get("selftext") or "").strip()
    title = row.text("title")
    yield Question(
        id=row.id("q_id"),
        question=f"{title}\n{more}" if more else title,
        answers=Row({"answers": texts}, row.where, row.number).texts("answers"),
        scoring="long",
        answer_type="long",
        about=only(row.fields, "subreddit"),
    )


def _read_clapnq(row: Row) -> Iterator[Question]:
    outputs = row.items("output")
    chosen = {str(s) for one in outputs for s in one.fields.get("selected_sentences") or ()}
    answers = tuple(dict.fromkeys(one.text("answer") for one in outputs if one.fields["answer"]))
    passages = []
    for one in row.items("passages"):
        sentences = [str(sentence) for sentence in one.fields.get("sentences") or ()]
        found = [at for at, sentence in enumerate(sentences) if sentence in chosen]
        title = str(one.fields.get("title") or "")
        gold = bool(found) or (not sentences and bool(answers))
        passages.append(passage(one.text("text"), title, gold=gold, gold_sentences=found))
    yield Question(
        id=row.id("id"),
        question=row.text("input"),
        answers=answers,
        scoring="long",
        answer_type="long",
        answerable=bool(answers),
        passages=tuple(passages),
    )


ELI5 = Format(
    name="eli5",
    summary="ELI5: long answers, without passages.",
    datasets=("eli5",),
    expects="q_id, title, answers",
    fits=has("q_id", "title", "answers"),
    read=_read_eli5,
)
CLAPNQ = Format(
    name="clapnq",
    summary="CLAPNQ: long answers over passages.",
    datasets=("clapnq",),
    expects="id, input, passages (title, text, sentences), output (answer, selected_sentences)",
    fits=has("input", "passages", "output"),
    read=_read_clapnq,
)
