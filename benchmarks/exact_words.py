"""Queries of a text's own words, codes and lines of logs: the share whose passage comes first.

    python benchmarks/exact_words.py [--sets logs licences] [--table]

The corpora are made from what is installed; nothing of them is copied here. Of each passage a query is drawn: six words
in a row, four words in any order, or a word that no other passage has between two that many have, in turn. In Chinese,
where words have no spaces, it is twelve characters in a row. Each corpus has at most 400 passages and 150 queries. Vectors
of the packaged MiniLM are stored by content. Replaces its rows in `results/exact_words.json`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from langchain_core.documents import Document

from graph_retrieval import in_percent
from own_sets import stdlib
from ragweave.evaluation.statistics import bootstrap
from ragweave.names import RetrieverName
from ragweave.tools.knowledge import KnowledgeBase
from vectors import StoredEmbeddings

RESULTS = Path(__file__).parent / "results" / "exact_words.json"
PASSAGES, QUERIES = 400, 150
MODES: tuple[RetrieverName, ...] = ("bm25", "dense", "hybrid", "graph")
_ROFF = re.compile(r"^[.'].*$|\\f.|\\[&|^%]|\\\([a-z]{2}|\\\*\([a-z]{2}", re.MULTILINE)


def paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a text that are neither short nor long."""
    for part in re.split(r"\n\s*\n", text):
        joined = " ".join(part.split())
        if 120 <= len(joined) <= 1500:
            yield joined


def licences() -> Iterator[str]:
    """Yield the paragraphs of the licences that Debian installs."""
    for path in sorted(Path("/usr/share/common-licenses").glob("*")):
        if not path.is_symlink():
            yield from paragraphs(path.read_text("utf-8", "replace"))


def logs() -> Iterator[str]:
    """Yield the lines of the package manager's logs."""
    for path in sorted(Path("/var/log").glob("**/*.log")):
        yield from (line.strip() for line in path.read_text("utf-8", "replace").splitlines() if len(line) > 30)


def _manuals(folder: str, pattern: str) -> Iterator[str]:
    for path in sorted(Path("/usr/share/man", folder).glob(pattern)):
        text = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
        yield from paragraphs(_ROFF.sub("\n", text.replace("\\-", "-")))


def manuals() -> Iterator[str]:
    """Yield paragraphs of the manuals of commands."""
    return _manuals("man1", "*.1.gz")


def chinese() -> Iterator[str]:
    """Yield paragraphs of the manuals in Chinese."""
    for part in _manuals("zh_CN", "man*/*.gz"):
        if len(re.findall(r"[\u4e00-\u9fff]", part)) > 40:
            yield part


CORPORA: dict[str, Callable[[], Iterator[str]]] = {
    "licences": licences,
    "logs": logs,
    "manuals": manuals,
    "standard library": lambda: (doc.page_content for doc in stdlib().documents),
    "Chinese manuals": chinese,
}


def queries(texts: list[str], rng: random.Random) -> Iterator[tuple[str, int]]:
    """Yield queries with the number of the passage that they are of."""
    counts = Counter(word for text in texts for word in {*re.findall(r"[\w./:-]+", text.lower())})
    for number in rng.sample(range(len(texts)), len(texts)):
        text = texts[number]
        runs = re.findall(r"[\u4e00-\u9fff]{12,}", text)
        words = re.findall(r"[\w./:-]+", text)
        if len(re.findall(r"[\u4e00-\u9fff]", text)) > 40:
            if runs:
                run = rng.choice(runs)
                start = rng.randrange(len(run) - 11)
                yield run[start : start + 12], number
            continue
        kind = rng.randrange(3)
        if kind == 0 and len(words) >= 6:
            start = rng.randrange(len(words) - 5)
            yield " ".join(words[start : start + 6]), number
        elif kind == 1 and len(words) >= 4:
            yield " ".join(rng.sample(words, 4)), number
        else:
            rare = [word for word in words if counts[word.lower()] == 1 and len(word) > 3]
            common = [word for word in words if counts[word.lower()] > len(texts) // 20]
            if rare and common:
                yield f"{rng.choice(common)} {rng.choice(rare)} {rng.choice(common)}", number


def measure(name: str) -> dict[str, Any]:
    """Index a corpus, and return the share of first hits of each mode."""
    rng = random.Random(7)
    texts = [*dict.fromkeys(CORPORA[name]())]
    texts = rng.sample(texts, min(PASSAGES, len(texts)))
    drawn = [*queries(texts, rng)][:QUERIES]
    row: dict[str, Any] = {"passages": len(texts), "queries": len(drawn), "date": time.strftime("%Y-%m-%d")}
    with (
        tempfile.TemporaryDirectory() as folder,
        KnowledgeBase.create(Path(folder) / "kb", embeddings=StoredEmbeddings()) as kb,
    ):
        kb.add([Document(text, id=str(at)) for at, text in enumerate(texts)], "corpus", split=False)
        for mode in MODES:
            retriever = kb.as_retriever(1, mode)
            hits = [float([doc.id for doc in retriever.invoke(query)] == [str(at)]) for query, at in drawn]
            row[mode] = in_percent(bootstrap(hits))
    return row


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--sets", nargs="+", choices=CORPORA, default=[*CORPORA])
    parser.add_argument("--table", action="store_true", help="print what is recorded")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    for name in () if options.table else options.sets:
        results[name] = measure(name)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
        print(name, results[name], flush=True)
    print("| corpus | passages | queries |", " | ".join(MODES), "|\n|" + "---|" * (3 + len(MODES)))
    for name, row in results.items():
        print("|", name, "|", row["passages"], "|", row["queries"], *(f"| {row[mode][0]}" for mode in MODES), "|")


if __name__ == "__main__":
    main()
