"""Citations against the sentences that people marked as support, and answers without support.

    python benchmarks/citations.py [--limit N]

Data: ../shared/data/filter, seen from the project's root. qed-dev: short answers of people, and the
one sentence that explains each. clapnq-answerable: long answers that people wrote, and the
sentences that they chose for them. Five passages are searched for support: the question's own and
four of other questions, drawn with a fixed seed. The thresholds were chosen on the questions of
even number; the results are those of odd number.

* precision: share of quotes of which more than half lies in a marked sentence;
* recall: share of marked sentences of which more than half is quoted;
* supported: share of the answers' parts with a quote;
* foreign: share of parts left unsupported (as they should be) where the question's own passage
  is missing;
* swapped: the same where the passages stay and the answer is another question's.

Baselines: the best sentence for the question alone, and each passage's first sentence.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.documents import Document
from rich.console import Console
from rich.table import Table

from ragweave.state import AnswerType, Citation
from ragweave.tools.citations import cite
from ragweave.tools.text.words import split_sentences

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data" / "filter"
RESULTS = ROOT / "benchmarks" / "results"
COLUMNS = ("precision", "recall", "f1", "supported", "foreign", "swapped")
OTHERS = 4


class Case(NamedTuple):
    question: str
    answer: str
    kind: AnswerType
    passage: Document
    gold: list[tuple[int, int]]
    """Offsets of the sentences that people marked."""


def rows(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def shared(first: tuple[int, int], second: tuple[int, int]) -> int:
    """Return how many characters two spans share."""
    return max(0, min(first[1], second[1]) - max(first[0], second[0]))


def qed() -> Iterator[Case]:
    for row in rows("qed-dev"):
        answers = [part["string"] for answer in row["original_nq_answers"] for part in answer]
        if row["annotation"]["explanation_type"] == "single_sentence" and answers:
            chosen = row["annotation"]["selected_sentence"]
            passage = Document(
                page_content=row["paragraph_text"],
                id=str(row["example_id"]),
                metadata={"title": row["title_text"]},
            )
            span = (chosen["start"], chosen["end"])
            yield Case(row["question_text"], answers[0], "short", passage, [span])


def clapnq() -> Iterator[Case]:
    for row in rows("clapnq-answerable"):
        given = row["passages"][0]
        for output in row["output"]:
            chosen, gold, cursor = set(output["selected_sentences"]), [], 0
            for sentence in given["sentences"]:
                start = given["text"].index(sentence, cursor)
                cursor = start + len(sentence)
                if sentence in chosen:
                    gold.append((start, cursor))
            if gold and output["answer"]:
                title = {"title": given["title"]}
                passage = Document(page_content=given["text"], id=row["id"], metadata=title)
                yield Case(row["input"], output["answer"], "long", passage, gold)
                break


Citer = Callable[[str, str, Sequence[Document], AnswerType], list[Citation]]


def of_question(question: str, answer: str, passages: Sequence[Document], _kind: AnswerType) -> list[Citation]:
    """The sentences that agree most with the question, whatever the answer."""
    return [{**citation, "text": answer} for citation in cite(question, question, passages)]


def first_sentences(_question: str, answer: str, passages: Sequence[Document], _kind: AnswerType) -> list[Citation]:
    """Each passage's first sentence."""
    quotes = [
        {"passage": doc.id or "", **first._asdict(), "score": 1.0}
        for doc in passages
        for first in split_sentences(doc.page_content)[:1]
    ]
    return [{"text": answer, "start": 0, "end": len(answer), "quotes": quotes}]  # type: ignore[typeddict-item]


CITERS: dict[str, Citer] = {
    "ours": cite,
    "best for the question": of_question,
    "first sentences": first_sentences,
}


def measure(citer: Citer, cases: Sequence[Case]) -> dict[str, float]:
    """Average over the questions of odd number."""
    draw = random.Random(7)
    sums = dict.fromkeys(("right", "quotes", "recalled", "gold", "parts", "supported"), 0)
    left = {"foreign": [0, 0], "swapped": [0, 0]}
    for number, case in enumerate(cases):
        others = draw.sample([other for other in cases if other.passage.id != case.passage.id], OTHERS)
        foreign = [other.passage for other in others]
        if not number % 2:
            continue
        passages = [*foreign[:2], case.passage, *foreign[2:]]
        count(sums, case, citer(case.question, case.answer, passages, case.kind))
        for name, asked, searched in (
            ("foreign", case.answer, foreign),
            ("swapped", others[0].answer, passages[1:4]),
        ):
            parts = citer(case.question, asked, searched, case.kind)
            if name == "swapped" and asked.lower() in case.passage.page_content.lower():
                continue
            left[name][0] += sum(not part["quotes"] for part in parts)
            left[name][1] += len(parts)
    precision = sums["right"] / max(1, sums["quotes"])
    recall = sums["recalled"] / max(1, sums["gold"])
    return {
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / max(precision + recall, 1e-9),
        "supported": sums["supported"] / max(1, sums["parts"]),
        **{name: unsupported / max(1, parts) for name, (unsupported, parts) in left.items()},
    }


def count(sums: dict[str, int], case: Case, citations: Sequence[Citation]) -> None:
    """Add the counts of an answer's citations."""
    quotes = {
        (quote["passage"], quote["start"], quote["end"]) for citation in citations for quote in citation["quotes"]
    }
    spans = [(start, end) for passage, start, end in quotes if passage == case.passage.id]
    sums["quotes"] += len(quotes)
    sums["right"] += sum(2 * sum(shared(span, gold) for gold in case.gold) > span[1] - span[0] for span in spans)
    sums["gold"] += len(case.gold)
    sums["recalled"] += sum(2 * sum(shared(span, gold) for span in spans) > gold[1] - gold[0] for gold in case.gold)
    sums["parts"] += len(citations)
    sums["supported"] += sum(bool(citation["quotes"]) for citation in citations)


def main() -> int:
    """Print a table for each data set and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, help="questions a data set")
    options = parser.parse_args()
    console = Console()
    if not DATA.exists():
        console.print("needs ../shared/data/filter")
        return 2
    report: dict[str, dict[str, object]] = {}
    for name, cases in (("qed-dev", [*qed()]), ("clapnq-answerable", [*clapnq()])):
        cases = cases[: options.limit]
        asked = len(cases) // 2
        table = Table("citations", *COLUMNS, title=f"{name}: {asked} questions, {OTHERS + 1} passages each")
        report[name] = {"questions": asked}
        for label, citer in CITERS.items():
            means = measure(citer, cases)
            report[name][label] = {column: round(means[column], 4) for column in COLUMNS}
            table.add_row(label, *(f"{means[column]:.3f}" for column in COLUMNS))
        console.print(table)
    if options.limit is None:
        path = Path(RESULTS) / "citations.json"
        path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
