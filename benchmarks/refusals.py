"""How well refusals are told from answers in real models' replies that the patterns never saw.

Replies of Llama 3.1 8B and Llama 2 7B and 13B from ../shared/data, without those in
tests/recorded, on which the patterns were tuned. Which of them refuse was decided by reading them;
`refusals.labels` holds their hashes, in two parts: `tuned` were read before the patterns were
mended, `held_out` after that. Answers are replies that hold a gold answer and refuse nothing.

    python benchmarks/refusals.py [--write]
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragweave.tools.statistics import bootstrap
from ragweave.tools.text.normalize import normalize_answer
from ragweave.tools.text.unknown import is_unknown

HERE = Path(__file__).parent
DATA = HERE.parents[1] / "shared" / "data"
LABELS = HERE / "refusals.labels"
RESULT = HERE / "results" / "refusals.json"
RECORDED = HERE.parent / "tests" / "recorded"


def mark(reply: str) -> str:
    """Return the hash by which a reply is known."""
    return hashlib.blake2b(reply.encode(), digest_size=8).hexdigest()


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a gzip file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def replies() -> Iterator[tuple[str, str, list[str]]]:
    """Yield source, reply and gold answers of every reply, each reply once."""
    seen = {json.loads(line)["text"] for name in ("answers", "refusals") for line in _tuned(name)}
    for source, reply, gold in _all():
        if reply.strip() and reply not in seen:
            seen.add(reply)
            yield source, reply, gold


def _tuned(name: str) -> list[str]:
    return (RECORDED / f"{name}.jsonl").read_text("utf-8").splitlines()


def _all() -> Iterator[tuple[str, str, list[str]]]:
    yield from _llama_3()
    yield from _llama_2()


def _llama_3() -> Iterator[tuple[str, str, list[str]]]:
    for path in sorted((DATA / "recorded-llama31-8b").glob("*.gz")):
        for row in rows(path):
            for way in ("no_retrieval", "one_round", "ircot"):
                for said in (row[way] or {}).values():
                    if isinstance(said, str):
                        yield "llama-3.1-8b", said, list(_flat(row["answers"]))


def _llama_2() -> Iterator[tuple[str, str, list[str]]]:
    for name in ("judge-llama7b-dev", "judge-llama7b-train", "judge2-llama7b-val"):
        for row in rows(DATA / "slimplm" / f"{name}.jsonl.gz"):
            gold = row.get("short_answers") or row.get("answer")
            yield "llama-2-7b", row["llama7b_without_search_answer"], list(_flat(gold))
    for row in rows(DATA / "slimplm" / "rewrite-llama13b-dev.jsonl.gz"):
        gold = row.get("answer") or [one.get("answer") for one in row.get("output") or ()]
        yield "llama-2-13b", row["llama13b_without_search_answer"], list(_flat(gold))


def _flat(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _flat(one)


def measured() -> dict[str, Any]:
    """Return how many refusals are read as Unknown, and how many answers are not."""
    labels = json.loads(LABELS.read_text("utf-8"))
    refusing = {name: set(listed) for name, listed in labels.items()}
    every = set().union(*refusing.values())
    found: dict[str, list[bool]] = {}
    for source, reply, gold in replies():
        said = mark(reply)
        for part in (name for name, listed in refusing.items() if said in listed):
            found.setdefault(f"refusals, {part}", []).append(is_unknown(reply))
            found.setdefault(f"refusals, {source}", []).append(is_unknown(reply))
        if said not in every and _holds(reply, gold):
            found.setdefault("answers", []).append(not is_unknown(reply))
            found.setdefault(f"answers, {source}", []).append(not is_unknown(reply))
    return {name: _rate(listed) for name, listed in sorted(found.items())}


def _holds(reply: str, gold: list[str]) -> bool:
    text = f" {normalize_answer(reply)} "
    return any(one and f" {one} " in text for one in map(normalize_answer, gold))


def _rate(listed: list[bool]) -> dict[str, Any]:
    found = bootstrap([float(one) for one in listed])
    share, low, high = (round(one, 3) for one in (found.mean, found.low, found.high))
    return {"n": len(listed), "right": sum(listed), "share": share, "95%": [low, high]}


def main() -> None:
    """Measure, print, and write where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--write", action="store_true", help="write benchmarks/results")
    arguments = parser.parse_args()
    kept = json.loads(RESULT.read_text("utf-8")) if RESULT.exists() else {}
    result = {**kept, "now": measured()}
    print(json.dumps(result, indent=1))
    if arguments.write:
        RESULT.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
