"""Yes or no: StrategyQA, and claims to verify; and KILT's form, which FEVER is published in too.

StrategyQA (Geva et al. 2021), FEVER (Thorne et al. 2018), Fool Me Twice (Eisenschlos et al. 2021), KILT
(Petroni et al. 2021). A claim is asked as a question of Yes or No; its label stands in `about`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ragweave.datasets.question import (
    Format,
    Kind,
    Question,
    about,
    answered,
    answers_of,
    id_of,
    marked,
    passage,
    unique,
)
from ragweave.datasets.rows import Row

CLAIM = "Is this claim true? {claim}"
"""How a claim is asked."""
LABELS = {"Yes": "SUPPORTS", "No": "REFUTES"}
"""FEVER's labels, by the answer that each stands for."""
_VERDICTS = {
    **dict.fromkeys(("supports", "supported", "true", "yes"), "Yes"),
    **dict.fromkeys(("refutes", "refuted", "false", "no"), "No"),
}
_UNDECIDED = "NOT ENOUGH INFO"


def verdict(text: str) -> str:
    """Return the Yes or No that a label stands for; "" for any other text."""
    return _VERDICTS.get(text.strip().lower(), "")


def _verdicts(row: Row, labels: Iterable[str]) -> tuple[str, ...]:
    found = dict.fromkeys(map(verdict, labels))
    if "" in found:
        raise row.error(f"the label must be SUPPORTS or REFUTES, Yes or No, not {list(labels)}")
    return tuple(found)


def read_strategyqa(row: Row) -> Iterator[Question]:
    """Read StrategyQA: with the facts that decide."""
    facts, term = row.json("facts"), str(row.get("term") or "")
    listed = facts if isinstance(facts, list) else [facts] if facts else []
    passages = unique(passage(str(one), term) for one in listed)
    yield Question(
        id=id_of(row),
        question=row.text("question"),
        answers=_verdicts(row, answered(row, "answer", "answers", "golden_answers")),
        kind="yes_no",
        passages=passages,
        gold=marked(passages),
        about=about(row, "decomposition"),
    )


def read_fever(row: Row) -> Iterator[Question]:
    """Read FEVER, KILT's FEVER, or Fool Me Twice."""
    if row.has("input", "output"):
        yield from read_kilt(row, "yes_no")
        return
    title = str(row.get("wikipedia_page") or "")
    right = [passage(one.text("text"), title) for one in row.rows("gold_evidence")]
    found = [passage(one.text("text"), title) for one in row.rows("retrieved_evidence")]
    labels = answers_of(row, "label", "golden_answers", "answers")
    answers = () if labels == (_UNDECIDED,) else _verdicts(row, labels)
    yield Question(
        id=id_of(row),
        question=CLAIM.format(claim=row.text("claim", "text", "question")),
        answers=answers,
        kind="yes_no",
        passages=unique([*right, *found]),
        gold=marked(right),
        about={"label": [LABELS[one] for one in answers]},
    )


def read_kilt(row: Row, kind: Kind = "short") -> Iterator[Question]:
    """Read KILT: `input` and `output`, answers with their provenance."""
    outputs = row.rows("output")
    answers = tuple(dict.fromkeys(str(one.get("answer")) for one in outputs if one.get("answer")))
    if not answers:
        raise row.error("no right answer: no 'output' has an 'answer'")
    sources = [source for one in outputs for source in one.rows("provenance") if source.get("text")]
    passages = unique(passage(one.text("text"), str(one.get("title") or "")) for one in sources)
    text = row.text("input")
    claim = kind == "yes_no" or all(one in LABELS.values() for one in answers)
    verdicts = _verdicts(row, answers) if claim else answers
    yield Question(
        id=id_of(row),
        question=CLAIM.format(claim=text) if claim else text,
        answers=verdicts,
        kind="yes_no" if claim else kind,
        passages=passages,
        gold=marked(passages),
        about={"label": [LABELS[one] for one in verdicts]} if claim else {},
    )


FORMATS = (
    Format("strategyqa", "StrategyQA: Yes or No.", read_strategyqa, (("question", "answer", "term", "facts"),)),
    Format("fever", "FEVER: claims to verify.", read_fever, (("claim", "label"),)),
    Format("fool_me_twice", "Fool Me Twice: claims with evidence.", read_fever, (("text", "label", "gold_evidence"),)),
    Format("kilt", "KILT: knowledge tasks over Wikipedia, with provenance.", read_kilt),
)
