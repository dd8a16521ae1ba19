"""Data sets with long answers: ELI5, CLAPNQ and ASQA.

* ELI5 in its authors' own format (Fan et al. 2019): `title`, `answers` with `text` and `score`.
* CLAPNQ (Rosenthal et al. 2024): `input`, `passages` as sentences, `output` with the selected
  sentences.
* ASQA (Stelmakh et al. 2022): ambiguous questions with several short answers and long reference
  answers. The authors' file is one object by split and id: `?split=train` names the split, else
  dev is asked. The judge data of SlimPLM (Tan et al. 2024) hold the same records line by line, and
  are read too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ragweave.datasets.question import Format, Question, each_once, has, passage
from ragweave.datasets.rows import NO_GOLD, Row, Rows, pick, rows_of
from ragweave.errors import UsageError


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
        about=pick(row.fields, "subreddit"),
    )


def _read_clapnq(row: Row) -> Iterator[Question]:
    outputs = row.items("output")
    chosen = {str(s) for one in outputs for s in one.listed("selected_sentences", optional=True)}
    given = [one.text("answer") for one in outputs if one.fields.get("answer")]
    answers = tuple(dict.fromkeys(given))
    passages = []
    for one in row.items("passages"):
        sentences = [str(sentence) for sentence in one.listed("sentences", optional=True)]
        found = [index for index, sentence in enumerate(sentences) if sentence in chosen]
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


_SPLITS = ("dev", "test", "train")
_NO_CONTEXT = "No context provided"


def _asqa_rows(path: Path, wanted: str = "") -> Rows:
    for row in rows_of(path):
        held = _asqa_splits(row.fields)
        if wanted and wanted not in held:
            raise row.error(
                f"there is no split {wanted!r}: {', '.join(held) or 'no split'} is in the file"
            )
        if not held:
            yield row
            continue
        split = row.fields[wanted or held[0]]
        for number, (key, record) in enumerate(split.items(), start=1):
            where = f"{row.where}, {key}"
            if not isinstance(record, Mapping):
                raise row.error(f"{key!r} must be an object")
            yield Row({"id": key, **record}, where, number)


def _read_asqa(row: Row) -> Iterator[Question]:
    pairs = row.items("qa_pairs")
    sets = tuple(one.texts("short_answers") for one in pairs)
    if not sets:
        raise row.error(f"{NO_GOLD}: 'qa_pairs' is empty")
    annotations = row.items("annotations", optional=True)
    notes = [one.text("long_answer", optional=True) for one in annotations]
    yield Question(
        id=row.id("id", "sample_id"),
        question=row.text("ambiguous_question", "question"),
        answers=tuple(filter(None, notes)),
        scoring="coverage",
        answer_type="long",
        answer_sets=sets,
        passages=each_once(
            passage(text, str(one.fields.get("wikipage") or ""), gold=True)
            for one in pairs
            if (text := one.text("context", optional=True)) and text != _NO_CONTEXT
        ),
        about=pick(row.fields, "known"),
    )


def _asqa_splits(fields: Mapping[str, Any]) -> list[str]:
    """Return the splits of the authors' file, the one that is asked by default first."""
    return [name for name in _SPLITS if isinstance(fields.get(name), Mapping)]


def _asqa_of(split: str) -> Format:
    if split not in _SPLITS:
        raise UsageError(f"asqa: there is no split {split!r}; choose one of: {', '.join(_SPLITS)}")
    return replace(ASQA, rows=partial(_asqa_rows, wanted=split))


def _fits_asqa(fields: Mapping[str, Any]) -> bool:
    if has("qa_pairs")(fields):
        return True
    splits = [fields[name] for name in _asqa_splits(fields)]
    return any("qa_pairs" in one for split in splits for one in list(split.values())[:1])


ASQA = Format(
    name="asqa",
    summary="ASQA: long answers that cover several short ones.",
    datasets=("asqa",),
    expects="one object by split and id, or lines, with ambiguous_question and qa_pairs",
    fits=_fits_asqa,
    read=_read_asqa,
    rows=_asqa_rows,
    splits=_asqa_splits,
    of_split=_asqa_of,
)
