"""What `prefer="newest"` changes: a manual in five versions, rules and their amendments, and versions of nothing.

    pip download --no-deps --no-binary :all: Django==1.11      # and 2.2, 3.2, 4.2, 5.2
    python benchmarks/newest.py Django-*.tar.gz

Indexes `docs/topics` of each release under its date. The questions are the sections that the newest release words
otherwise than the oldest: by their names, by the first 14 words that the oldest release has there (the hard case: the
old wording is asked for), and by their names in a year, which means the release of that time. Right is a passage of
that section in that release. The rules of a harbour and two amendments are ours. HotpotQA and NQ: each passage is dated
at random, `--draws` times. A difference is in points, with a 95 % interval by bootstrap over questions, and p of the
paired randomisation test. Search is by words (BM25).
"""

from __future__ import annotations

import argparse
import math
import random
import re
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.documents import Document

from graph_retrieval import K, recall
from passage_sets import SETS, Asked
from ragweave import KnowledgeBase
from ragweave.evaluation.statistics import compare
from ragweave.tools.retrieval import Bm25Retriever
from ragweave.tools.retrieval.newest import arranged

DATES = {"1.11": "2017-04-04", "2.2": "2019-04-01", "3.2": "2021-04-06", "4.2": "2023-04-03", "5.2": "2025-04-02"}
YEARS = {"2018": "2017-04-04", "2020": "2019-04-01", "2022": "2021-04-06", "2024": "2023-04-03"}
_AMENDED = ("2019-05-01", "2022-05-01", "2025-05-01")
HARBOUR = (
    ("How fast may boats go in the inner harbour?", "Boats in the inner harbour go no faster than {} knots.", "543"),
    ("How long may visitors stay at the guest pier?", "Visitors stay at the guest pier for up to {} nights.", "742"),
    ("Who opens the lock gate at night?", "At night, {} opens the lock gate.", ("the warden", "a guard", "the pilot")),
    ("How much does a lost pier key cost?", "A lost pier key costs {} crowns.", ("20", "30", "45")),
    ("When does the fuel dock close?", "The fuel dock closes at {} in the evening.", ("nine", "eight", "six")),
    ("What must a dinghy carry after dark?", "After dark, a dinghy carries {}.", ("a lamp", "two lamps", "a beacon")),
    ("Where is grey water emptied?", "Grey water is emptied at {}.", ("the east quay", "the slip", "the pump station")),
    ("How far from the slip may boats anchor?", "Boats anchor at least {} metres from the slip.", ("50", "80", "120")),
)
"""Questions, rules, and what the rules and each amendment say."""
ASKED = (("now", "", 2), ("in 2020", " It was 2020.", 0), ("before the amendment", " Before the amendment?", 1))
_RULES = {"=": "#", "-": "##", "~": "###"}
_UNDERLINED = re.compile(r"(?m)^(?:([=~-])\1{2,}\n)?(\S.*)\n([=~-])\3{2,}$")


def markdown(source: str) -> str:
    """Return a reStructuredText source with the headings of Markdown."""
    return _UNDERLINED.sub(lambda head: f"{_RULES[head[3]]} {head[2]}", source)


def pages(archive: Path) -> Iterator[tuple[str, str]]:
    """Yield the names and sources of a release's pages."""
    with tarfile.open(archive) as release:
        for member in release:
            name = member.name.partition("/docs/topics/")[2]
            if name.endswith(".txt") and (file := release.extractfile(member)):
                yield name.removesuffix(".txt"), file.read().decode()


def manual(archives: Sequence[Path], folder: Path) -> KnowledgeBase:
    """Index the releases."""
    for archive in archives:
        date = DATES[re.findall(r"\d+\.\d+", archive.name)[0]]
        for name, source in pages(archive):
            path = folder / "pages" / date / f"{name.replace('/', ' ')}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"---\ntitle: {name}\ndate: {date}\n---\n{markdown(source)}", "utf-8")
    kb = KnowledgeBase.create(folder / "kb", settings={"chunker": "headings", "embedding": None})
    print(kb.index_paths(folder / "pages"))
    return kb


def questions(kb: KnowledgeBase) -> dict[str, list[Asked]]:
    """Return the questions of each kind."""
    sections: dict[tuple[str, ...], dict[str, list[Document]]] = {}
    for doc in kb.passages():
        key = (doc.metadata["title"], *doc.metadata.get("heading_path", ()))
        sections.setdefault(key, {}).setdefault(doc.metadata["date"], []).append(doc)
    oldest, newest = min(DATES.values()), max(DATES.values())
    asked: dict[str, list[Asked]] = {"by name": [], "by the old words": [], "in a year": []}
    for key, versions in sections.items():
        if len(versions) < len(DATES) or len(key) < 2 or _texts(versions[oldest]) == _texts(versions[newest]):
            continue
        name = f"{key[-1]} ({key[0].replace('/', ' ')})"
        words = re.findall(r"\w+", versions[oldest][0].page_content.partition("\n")[2])[:14]
        year, then = random.Random(name).choice([*YEARS.items()])
        ids = {date: frozenset(str(doc.id) for doc in docs) for date, docs in versions.items()}
        asked["by name"].append(Asked(name, ids[newest]))
        asked["by the old words"].append(Asked(" ".join(words), ids[newest]))
        asked["in a year"].append(Asked(f"{name} in {year}", ids[then] | same_text(versions, then)))
    return asked


def same_text(versions: dict[str, list[Document]], date: str) -> frozenset[str]:
    """Return the ids of other versions' passages that have the text of one of a date."""
    texts = _texts(versions[date])
    return frozenset(str(doc.id) for docs in versions.values() for doc in docs if doc.page_content in texts)


def _texts(docs: Sequence[Document]) -> list[str]:
    return [doc.page_content for doc in docs]


def harbour() -> tuple[list[Document], dict[str, list[Asked]]]:
    """Return the rules and amendments, and the questions of each time."""
    documents, asked = [], {name: list[Asked]() for name, _, _ in ASKED}
    for number, (question, rule, values) in enumerate(HARBOUR, 1):
        for version, (date, value) in enumerate(zip(_AMENDED, values, strict=True)):
            title = f"Amendment {version} to the harbour rules" if version else "Harbour rules"
            lead = f"In rule {number}, the words are replaced by:" if version else f"Rule {number}."
            meta = {"title": title, "date": date}
            documents.append(Document(f"{lead} {rule.format(value)}", id=f"{number} {version}", metadata=meta))
        for name, more, version in ASKED:
            asked[name].append(Asked(question + more, frozenset([f"{number} {version}"])))
    return documents, asked


def ndcg(ids: list[str], asked: Asked) -> float:
    """Return nDCG@5 with binary relevance."""
    gain = sum(1 / math.log2(rank + 2) for rank, name in enumerate(ids[:K]) if name in asked.support)
    return gain / sum(1 / math.log2(rank + 2) for rank in range(min(K, len(asked.support))))


def first(ids: list[str], asked: Asked) -> float:
    """Return whether the first passage is right."""
    return float(ids[0] in asked.support) if ids else 0.0


def report(name: str, retriever: Any, asked: Sequence[Asked], *metrics: Callable[[list[str], Asked], float]) -> None:
    """Ask questions without and with the preference, and print the difference."""
    newest = arranged(retriever, K, None, "newest")
    found = [[[str(doc.id) for doc in search.find(each.text, K)] for each in asked] for search in (retriever, newest)]
    for metric in metrics:
        before, after = ([100 * metric(ids, each) for ids, each in zip(lists, asked, strict=True)] for lists in found)
        result = compare(after, before)
        change = f"{result.difference.mean:+.1f} [{result.difference.low:.1f}, {result.difference.high:.1f}]"
        means = f"{sum(before) / len(asked):.1f} → {sum(after) / len(asked):.1f}"
        print(f"{name}, {len(asked)} questions, {metric.__name__}: {means}, {change}, p {result.p:.4f}", flush=True)


def main() -> None:
    """Print the differences."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("archives", nargs="*", type=Path, help="source distributions of Django")
    parser.add_argument("--limit", type=int, default=300, help="questions of each kind")
    parser.add_argument("--draws", type=int, default=5, help="times that dates are drawn")
    args = parser.parse_args()
    if args.archives:
        with TemporaryDirectory() as folder, manual(args.archives, Path(folder)) as kb:
            for kind, asked in questions(kb).items():
                chosen = random.Random(5).sample(asked, min(args.limit, len(asked)))
                report(f"manual, {kind}", kb.as_retriever(K, "bm25"), chosen, ndcg, first)
    rules, by_time = harbour()
    for kind, asked in by_time.items():
        report(f"rules, {kind}", Bm25Retriever.from_documents(rules, k=K), asked, ndcg, first)
    for name in ("hotpotqa", "nq"):
        for seed in range(args.draws):
            draw = random.Random(seed)
            documents, asked = SETS[name]()
            for doc in documents:
                doc.metadata["date"] = f"{draw.randrange(2000, 2026)}-{draw.randrange(1, 13):02}-01"
            report(name, Bm25Retriever.from_documents(documents, k=K), asked, recall)


if __name__ == "__main__":
    main()
