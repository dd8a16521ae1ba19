"""How far `known_label` agrees with the labels of SlimPLM's authors, and where it does not.

    python benchmarks/judge_labels.py [--limit N] [--rows N]

Data: ../shared/data/slimplm, seen from the project's root.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ragweave.tools.claims import known_label, match_ratio
from ragweave.tools.text.normalize import normalize_answer

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data" / "slimplm"
FILES = ("judge-llama7b-train", "judge-llama7b-dev", "judge2-llama7b-val")
DRAFT = "llama7b_without_search_answer"

Row = dict[str, Any]


def gold(row: Row) -> list[str]:
    """Every alias as an answer of its own: what `known_label` is given."""
    answers = row.get("short_answers") or row["answer"]
    return [answers] if isinstance(answers, str) else list(answers)


def grouped(row: Row) -> list[list[str]]:
    """One answer a sub-question (ASQA) or question (KILT), its aliases together."""
    if "qa_pairs" in row:
        return [pair["short_answers"] for pair in row["qa_pairs"]]
    return [gold(row)]


def share(row: Row, change: Callable[[str], str], *, whole_words: bool) -> float:
    """The match ratio with another normalisation."""
    edge = " " if whole_words else ""
    draft = f"{edge}{change(row[DRAFT])}{edge}"
    answers = gold(row)
    return sum(f"{edge}{change(one)}{edge}" in draft for one in answers) / len(answers)


RULES: dict[str, Callable[[Row], bool]] = {
    "known_label: normalised, substring, aliases apart": lambda r: known_label(r[DRAFT], gold(r)),
    "any alias counts for its answer": lambda r: known_label(r[DRAFT], grouped(r)),
    "normalised, whole words": lambda r: share(r, normalize_answer, whole_words=True) > 0.5,
    "lower-cased, substring": lambda r: share(r, str.lower, whole_words=False) > 0.5,
    "as it stands, substring": lambda r: share(r, str, whole_words=False) > 0.5,
}


def identity(row: Row) -> str:
    """The row's id under either of its names."""
    return str(row.get("id") or row["_id"])


def source(row: Row) -> str:
    """The data set that a row comes from, by its fields."""
    if "qa_pairs" in row:
        return "ASQA"
    return "multi-hop" if "ppl" in row else "KILT"


def why(row: Row) -> str:
    """Say in a few words why a row's label may differ from ours."""
    ratio = match_ratio(row[DRAFT], gold(row))
    if "ppl" in row:
        return f"multi-hop rows carry a perplexity ({row['ppl']:.1f}): labelled by it; r = {ratio:.2f}"
    if row["known"] and ratio > 0:
        return f"r = {ratio:.2f}: known only under a lower theta"
    return f"r = {ratio:.2f}"


def read(name: str, limit: int | None) -> list[Row]:
    """Rows with short answers (ELI5's have none)."""
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines][:limit]
    return [row for row in rows if row.get("short_answers") or row.get("answer")]


def best_theta(rows: list[Row]) -> tuple[float, float]:
    """The theta, in steps of 0.05, that agrees best on the rows without a perplexity."""
    plain = [(match_ratio(r[DRAFT], gold(r)), r["known"]) for r in rows if "ppl" not in r]
    return max(
        ((sum((ratio > step / 20) == known for ratio, known in plain) / len(plain), step / 20) for step in range(20)),
        key=lambda found: (found[0], -abs(found[1] - 0.5)),
    )


def main() -> int:
    """Print the agreement, file by file and rule by rule, and the rows that differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, help="rows a file")
    parser.add_argument("--rows", type=int, default=10, help="differing rows to print a file")
    options = parser.parse_args()
    console = Console()
    if not DATA.exists():
        console.print("needs ../shared/data/slimplm")
        return 2
    report: dict[str, Any] = {}
    for name in FILES:
        rows = read(name, options.limit)
        agreement = {rule: sum(label(r) == r["known"] for r in rows) / len(rows) for rule, label in RULES.items()}
        differing = [r for r in rows if known_label(r[DRAFT], gold(r)) != r["known"]]
        share_right, theta = best_theta(rows)
        report[name] = {
            "rows": len(rows),
            "agreement": agreement,
            "best_theta": {"theta": theta, "agreement_without_multi_hop": share_right},
            "differing": [
                {"id": identity(r), "source": source(r), "known": r["known"], "why": why(r)} for r in differing
            ],
        }
        table = Table("rule (theta 0.5)", "agreement", title=f"{name}: {len(rows)} rows")
        for rule, value in agreement.items():
            table.add_row(rule, f"{value:.1%}")
        table.add_row(f"[dim]best theta {theta:.2f}, multi-hop rows left out", f"{share_right:.1%}")
        console.print(table)
        for r in differing[: options.rows]:
            console.print(f"  {source(r)} {identity(r)} known={r['known']}: {why(r)}", highlight=False)
        if len(differing) > options.rows:
            console.print(f"  … {len(differing) - options.rows} more in the JSON report")
    out = ROOT / "benchmarks" / "results" / "judge_labels.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
