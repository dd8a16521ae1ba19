"""Sentence splitters against given sentence boundaries: precision, recall, F1 and time.

    python benchmarks/sentence_splitters.py [--limit N]

Data: the passages of ../shared/data/filter/clapnq-answerable.jsonl.gz, seen from the project's
root, whose sentences are given. A boundary is the character where a sentence starts; a passage's
first is not counted. The passages are tokenised ("world 's ."): `detokenised` joins punctuation to
words again and maps the boundaries. Only sentencex is a dependency of ragweave; the others are
compared where they are installed (pip install pysbd syntok nltk). NLTK's trained Punkt model is a
download, so Punkt runs untrained and, as "punkt trained here", trained on the compared texts.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import re
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from ragweave.tools.text.sentences import split_sentences

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data" / "filter" / "clapnq-answerable.jsonl.gz"
RESULT = ROOT / "benchmarks" / "results" / "sentence_splitters.json"

Splitter = Callable[[str], list[int]]
"""Text in, the characters where its sentences start out."""

GLUE = re.compile(r" (?=[.,;:!?%)\]]|'s\b|n't\b|'(?:re|ve|ll|d|m)\b|'' )|(?<=[(\[]) |(?<=``) | (?=''$)")


class Passage(NamedTuple):
    text: str
    starts: set[int]
    """Where its sentences start, but for the first."""


def located(text: str, pieces: Iterable[str]) -> list[int]:
    """Where each piece starts, looked for in order."""
    starts, cursor = [], 0
    for piece in pieces:
        stripped = piece.strip()
        found = text.find(stripped, cursor) if stripped else -1
        if found >= 0:
            starts.append(found)
            cursor = found + len(stripped)
    return starts


def passages(limit: int | None) -> list[Passage]:
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines][:limit]
    found = [row["passages"][0] for row in rows]
    return [Passage(p["text"], set(located(p["text"], p["sentences"])[1:])) for p in found]


def detokenised(passage: Passage) -> Passage:
    """The passage without the spaces that tokenising put in, its boundaries moved along."""
    dropped = [match.start() for match in GLUE.finditer(passage.text)]
    moved = {start - sum(d < start for d in dropped) for start in passage.starts}
    return Passage(GLUE.sub("", passage.text), moved)


def regex(text: str) -> list[int]:
    return [
        0,
        *(match.end() for match in re.finditer(r"[.!?][\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9])", text)),
    ]


def pysbd_splitter() -> Splitter:
    with warnings.catch_warnings():
        # pysbd's patterns hold invalid escapes, which Python reports when it compiles them.
        warnings.simplefilter("ignore", SyntaxWarning)
        import pysbd
    segmenter = pysbd.Segmenter(language="en", clean=False)
    return lambda text: located(text, segmenter.segment(text))


def syntok_splitter() -> Splitter:
    from syntok import segmenter

    return lambda text: [
        sentence[0].offset for paragraph in segmenter.process(text) for sentence in paragraph if sentence
    ]


def punkt_splitter(texts: list[str]) -> Splitter:
    from nltk.tokenize.punkt import PunktSentenceTokenizer, PunktTrainer

    if not texts:
        tokenizer = PunktSentenceTokenizer()
    else:
        trainer = PunktTrainer()
        trainer.train("\n".join(texts), finalize=True)
        tokenizer = PunktSentenceTokenizer(trainer.get_params())
    return lambda text: [start for start, _ in tokenizer.span_tokenize(text)]


def splitters(texts: list[str]) -> tuple[dict[str, Splitter], list[str]]:
    """The splitters that are installed, and the packages that are not."""
    made: dict[str, Splitter] = {
        "sentencex (ragweave)": lambda text: [s.start for s in split_sentences(text)],
        "regex": regex,
    }
    optional: dict[str, dict[str, Callable[[], Splitter]]] = {
        "pysbd": {"pysbd": pysbd_splitter},
        "syntok": {"syntok": syntok_splitter},
        "nltk": {
            "nltk punkt, untrained": lambda: punkt_splitter([]),
            "nltk punkt, trained here": lambda: punkt_splitter(texts),
        },
    }
    missing = [name for name in optional if importlib.util.find_spec(name) is None]
    for name, makers in optional.items():
        if name not in missing:
            made.update({label: make() for label, make in makers.items()})
    return made, missing


def measure(split: Splitter, texts: list[Passage]) -> dict[str, float]:
    """Boundary precision, recall, F1, and seconds for all texts."""
    began = time.perf_counter()
    got = [split(one.text) for one in texts]
    seconds = time.perf_counter() - began
    found = [{s for s in starts if s} for starts in got]
    right = sum(len(f & one.starts) for f, one in zip(found, texts, strict=True))
    precision = right / max(1, sum(map(len, found)))
    recall = right / max(1, sum(len(one.starts) for one in texts))
    exact = sum(f == one.starts for f, one in zip(found, texts, strict=True)) / len(texts)
    return {
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / max(1e-9, precision + recall),
        "passages_without_a_fault": exact,
        "seconds": seconds,
    }


def main() -> int:
    """Print a table a text form, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, help="passages to take")
    options = parser.parse_args()
    console = Console()
    if not DATA.exists():
        console.print(f"needs ../shared/data/filter/{DATA.name}")
        return 2
    given = passages(options.limit)
    report: dict[str, dict[str, dict[str, float]]] = {}
    for form, texts in (("as given", given), ("detokenised", [*map(detokenised, given)])):
        made, missing = splitters([one.text for one in texts])
        rows = {name: measure(split, texts) for name, split in made.items()}
        base = rows["sentencex (ragweave)"]["seconds"]
        report[form] = {n: {**r, "time_ratio": r["seconds"] / base} for n, r in rows.items()}
        boundaries = sum(len(one.starts) for one in texts)
        table = Table(
            "splitter",
            "P",
            "R",
            "F1",
            "whole passages",
            "time / sentencex",
            title=f"{form}: {len(texts)} passages, {boundaries} boundaries",
        )
        for name, r in sorted(report[form].items(), key=lambda item: -item[1]["f1"]):
            shares = [r["precision"], r["recall"], r["f1"], r["passages_without_a_fault"]]
            table.add_row(name, *(f"{v:.3f}" for v in shares), f"{r['time_ratio']:.2f}")
        console.print(table)
        if missing:
            console.print(f"not installed, left out: {', '.join(missing)}")
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
