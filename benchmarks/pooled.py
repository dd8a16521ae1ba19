"""Compare methods over several runs at once, question by question: the tables of docs/results.md, in Markdown.

    python benchmarks/pooled.py benchmarks/results/h200/{hotpotqa,2wiki}-graph.jsonl.gz
    python benchmarks/pooled.py benchmarks/results/h200/{hotpotqa,2wiki}-graph.jsonl.gz \\
        --against benchmarks/results/h200/{hotpotqa,2wiki}-hybrid.jsonl.gz
    python benchmarks/pooled.py benchmarks/results/h200/forms-{nq,hotpotqa}-1.5b.jsonl.gz --free

The last column is the difference in F1 to --base, to the same method in other runs (--against), or to the same method
with `constrain=false` (--free), over the questions that both answered, with a 95 % bootstrap interval.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragweave.evaluation.folder import read_results
from ragweave.evaluation.statistics import compare

Rows = dict[str, dict[tuple[int, str], dict[str, Any]]]


def unpacked(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a packed run."""
    yield from map(json.loads, gzip.decompress(path.read_bytes()).decode().strip().split("\n"))


def read(paths: list[Path]) -> Rows:
    """Return the rows of runs by system, then by run and question."""
    by_system: Rows = {}
    for number, path in enumerate(paths):
        for row in unpacked(path) if path.suffix == ".gz" else read_results(path):
            if not row["error"]:
                by_system.setdefault(row["system"], {})[number, row["id"]] = row
    return by_system


def line(name: str, rows: dict[Any, dict[str, Any]], others: dict[Any, dict[str, Any]] | None) -> str:
    """Return a row of the table."""
    both = [key for key in rows if key in others] if others is not None else [*rows]
    values = [rows[key] for key in both]

    def mean(of: Any) -> float:
        return sum(map(of, values)) / len(values)

    shown = [f"{100 * mean(lambda row, key=key: row['scores'].get(key, 0)):.1f}" for key in ("f1", "em", "recall")]
    shown.append(f"{100 * mean(lambda row: row['status'] == 'unknown'):.0f}")
    shown.append(f"{mean(lambda row: row['scores'].get('unread', 0)):.2f}")
    shown.append(f"{mean(lambda row: row['usage']['calls']):.1f}")
    shown.append(f"{mean(lambda row: row['usage']['input_tokens'] + row['usage']['output_tokens']):,.0f}")
    gap = ""
    if others is not None and others is not rows:
        scores = ([100 * run[key]["scores"]["f1"] for key in both] for run in (rows, others))
        change = compare(*scores).difference
        gap = f"{change.mean:+.1f} [{change.low:+.1f}, {change.high:+.1f}]".replace("-", "−")
    return f"| `{name}` | {len(both)} | {' | '.join(shown)} | {gap} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="run folders, or their rows (.jsonl.gz)")
    parser.add_argument("--against", nargs="+", type=Path, help="other runs of the same methods")
    parser.add_argument("--base", default="concat")
    parser.add_argument("--free", action="store_true", help="compare with constrain=false")
    args = parser.parse_args()
    runs = read(args.runs)
    others = read(args.against) if args.against else runs
    print("| method | questions | F1 | EM | recall | Unknown, % | unread | calls | tokens | difference in F1 |")
    print("|---|" + "---:|" * 9)
    for name, rows in sorted(runs.items()):
        other = name if args.against else f"{name}[constrain=false]" if args.free else args.base
        if other in others or not args.free:
            print(line(name, rows, others.get(other)))
            if args.free:
                print(line(other, others[other], rows))


if __name__ == "__main__":
    main()
