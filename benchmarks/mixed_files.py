"""Twenty kinds of questions over mixed files: how many answers are right, and how many are cited.

    python benchmarks/mixed_files.py [--model SPEC]

The files are those of `tests/cases/documents`, some 60 of our own in 20 types, indexed together with the default
settings. `concat` answers from three passages. An answer is right if it holds what the file says, or is Unknown where
no file says it; it is uncited if no sentence of the passages was found for it.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections import Counter
from pathlib import Path

from ragweave import KnowledgeBase, build_graph, chat_model
from ragweave.state import UNKNOWN

FILES = Path(__file__).parents[1] / "tests" / "cases" / "documents"
QUESTIONS = [
    ("a date in a filled form", "When must Mirjam Oduya return the equipment?", "14 March 2027"),
    ("an identifier in a form", "What is the serial number of the borrowed equipment?", "KX-7741-B"),
    ("an amount in a PDF", "What is the fine for an open fire?", "900"),
    ("a cell of a sheet", "What is the phone number of the region North?", "555-0123"),
    ("a row of a Word table", "When is the North hall open on Tuesday?", "10 to 14"),
    ("a clause of a contract", "How long does the lease run?", "five years"),
    ("a slide", "In which month is the crane tested?", "March"),
    ("an e-mail", "When is invoice 88120 due?", "17 April"),
    ("the speaker of a transcript", "Who said the boiler was replaced in April?", "Mira Lund"),
    ("an amount in a transcript", "What did the burner cost?", "2[,.]?300"),
    ("a line of a log", "With which code did pump P-18 fail?", "4077"),
    ("a web page's FAQ", "How long is a ticket valid?", "ninety minutes|90 minutes"),
    ("a section of a web page", "When do shares vest?", "four years"),
    ("a row of a long Markdown table", "What is the salinity at station S045?", r"34\.5"),
    ("a row of a CSV file", "Which café is in Köln?", "Müller"),
    ("a program", "How many metres a minute does the winch make below 200 kg?", r"\b12\b"),
    ("a notebook", "How much later than in Bergen is high water at Vik?", "40 minutes"),
    ("two files", "Where was the chair of the harbour board born?", "Vadso"),
    ("another language", "Wie hoch ist die Geschwindigkeitsbegrenzung?", "70"),
    ("what no file says", "Who designed the harbour crane?", f"^{UNKNOWN}$"),
]
"""Kind, question, and a pattern of the right answer."""


def main() -> None:
    """Ask, and print each answer and the counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--model", default="extractive", help="spec of the model")
    spec = parser.parse_args().model
    counts: Counter[str] = Counter()
    print(f"{time.strftime('%Y-%m-%d')}, {Path(spec).name}\n| kind | answer | |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, KnowledgeBase.create(Path(folder, "kb")) as kb:
        kb.index_paths([FILES])
        graph = build_graph("concat", model=chat_model(spec), retriever=kb.as_retriever(3), citations=True)
        for kind, question, pattern in QUESTIONS:
            output = graph.invoke({"question": question})
            answer = output["answer"]
            verdict = (
                "right" if re.search(pattern, answer, re.IGNORECASE) else "Unknown" if answer == UNKNOWN else "wrong"
            )
            cited = answer == UNKNOWN or any(citation["quotes"] for citation in output["citations"])
            counts.update([verdict, *([] if cited else ["uncited"])])
            print(f"| {kind} | {' '.join(answer.split())} | {verdict}{'' if cited else ', uncited'} |", flush=True)
    print(", ".join(f"{counts[name]} {name}" for name in ("right", "wrong", "Unknown", "uncited")))


if __name__ == "__main__":
    main()
