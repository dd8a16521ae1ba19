"""Data sets with long answers: ASQA, ELI5, CLAPNQ, Wizard of Wikipedia.

ASQA (Stelmakh et al. 2022), ELI5 (Fan et al. 2019), CLAPNQ (Rosenthal et al. 2024), Wizard of Wikipedia
(Dinan et al. 2019, as KILT publishes it).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ragweave.datasets.claims import read_kilt
from ragweave.datasets.open_qa import read_plain
from ragweave.datasets.question import Format, Question, answered, id_of, marked, passage, unique
from ragweave.datasets.rows import Row

SPLITS = ("dev", "test", "train")
"""The splits of the authors' file of ASQA, the one that is asked by default first."""


def read_asqa(row: Row) -> Iterator[Question]:
    """Read ASQA: the authors' file has an object by split, then by id."""
    for split in SPLITS:
        if isinstance(row.get(split), Mapping):
            for number, (name, one) in enumerate(row.fields[split].items(), 1):
                yield from read_asqa(Row({"id": name, **one}, f"{row.where}, {name}", number))
            return
    pairs = row.rows("qa_pairs")
    if not pairs:
        yield from read_long(row)
        return
    contexts = [one for one in pairs if one.get("context") not in (None, "", "No context provided")]
    passages = unique(passage(one.text("context"), str(one.get("wikipage") or "")) for one in contexts)
    yield Question(
        id=id_of(row, "sample_id"),
        question=row.text("ambiguous_question", "question"),
        answers=tuple(one.text("long_answer") for one in row.rows("annotations")),
        parts=tuple(answered(one, "short_answers") for one in pairs),
        kind="parts",
        passages=passages,
        gold=marked(passages),
    )


def read_long(row: Row) -> Iterator[Question]:
    """Read ELI5, Wizard of Wikipedia, and other questions with long answers."""
    if row.has("input", "output"):
        yield from read_kilt(row, "long")
    elif not row.has("title"):
        yield from (replace(one, kind="long") for one in read_plain(row))
    else:
        more = str(row.get("selftext") or "").strip()
        yield Question(
            id=id_of(row, "q_id"),
            question=f"{row.text('title')}\n{more}".strip(),
            answers=answered(row, "answers", "golden_answers"),
            kind="long",
        )


def read_clapnq(row: Row) -> Iterator[Question]:
    """Read CLAPNQ: long answers over passages, of which sentences are selected; some have no answer."""
    outputs = row.rows("output")
    chosen = {str(one) for output in outputs for one in output.json("selected_sentences") or ()}
    answers = tuple(dict.fromkeys(str(one.get("answer")) for one in outputs if one.get("answer")))
    passages, gold = [], []
    for one in row.rows("passages"):
        sentences = [str(said) for said in one.json("sentences") or ()]
        passages.append(passage(one.text("text"), str(one.get("title") or "")))
        if chosen & set(sentences) or (answers and not sentences):
            gold.append(passages[-1])
    yield Question(
        id=id_of(row),
        question=row.text("input"),
        answers=answers,
        kind="long",
        passages=unique(passages),
        gold=marked(gold),
        about={"selected": sorted(chosen)},
    )


FORMATS = (
    Format("asqa", "ASQA: long answers that cover several short ones.", read_asqa, (("qa_pairs",),)),
    Format("eli5", "ELI5: long answers, without passages.", read_long, (("q_id", "title"),)),
    Format("wow", "Wizard of Wikipedia, in KILT's form.", read_long),
    Format("clapnq", "CLAPNQ: long answers over passages.", read_clapnq, (("input", "passages", "output"),)),
)
