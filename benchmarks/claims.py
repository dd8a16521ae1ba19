"""Test what README and docs say about recorded answers: significant after correction, or "not certain".

    python benchmarks/claims.py             # each claim: questions, difference, 95 % interval, p, p after correction
    python benchmarks/claims.py --all       # every comparison that was corrected with them

A difference is that of two systems' means over the questions that both answered, in points, with a 95 % bootstrap
interval; p is that of the paired randomisation test, corrected by Holm's rule for all comparisons of its family. A
claim is the difference as a page must show it; `tests/docs` holds the pages to it. `docs/sync.py` writes the tables.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from statistics import fmean as mean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragweave.evaluation.statistics import Interval, compare, holm

RESULTS = Path(__file__).parent / "results"
GRAPH, HYBRID, TOLD = "h200/{hotpotqa,2wiki}-graph", "h200/{hotpotqa,2wiki}-hybrid", "h200/hotpotqa-told"

Vector = NDArray[np.float64]
Record = dict[str, Any]
Records = dict[tuple[str, str], Record]
"""Records of one system by run and question."""
Pairs = dict[str, tuple[Records, Records]]
"""What is compared, by its name: the records of two systems."""


class Outcome(NamedTuple):
    """A comparison; means and difference are in points."""

    first: float
    second: float
    difference: Interval
    p: float
    corrected: float = 1
    """p after Holm's correction for the comparisons of its family."""

    @property
    def certain(self) -> bool:
        """Whether the difference is significant after correction."""
        return self.corrected < 0.05

    @property
    def text(self) -> str:
        """The difference and its interval, as pages show them."""
        return interval_text(self.difference.mean, self.difference.low, self.difference.high)


def interval_text(mean: float, low: float, high: float) -> str:
    """Return a difference and its interval, as pages show them."""
    mean, low, high = (round(value, 1) + 0.0 for value in (mean, low, high))  # no −0.0
    return f"{mean:+.1f} [{low:.1f}, {high:.1f}]".replace("-", "−")


@cache
def read(name: str) -> dict[str, Records]:
    """Return the records of one run, or of a run on each of `{A,B}`, by system."""
    before, _, rest = name.partition("{")
    sets, _, after = rest.partition("}")
    systems: dict[str, Records] = {}
    for data in sets.split(","):
        path = RESULTS / f"{before}{data}{after}.jsonl.gz"
        for row in map(json.loads, gzip.decompress(path.read_bytes()).splitlines()):
            if not row.get("error"):
                systems.setdefault(row["system"], {})[data, row["id"]] = row
    return systems


def common(first: Records, second: Records) -> list[tuple[Record, Record]]:
    """Return the records of the questions that both answered, in pairs."""
    return [(record, second[key]) for key, record in first.items() if key in second]


def beside(base: str, run: str) -> Pairs:
    """Compare the systems of a run with one of them."""
    systems = read(run)
    return {name: (records, systems[base]) for name, records in systems.items() if name != base}


def across(run: str, other: str) -> Pairs:
    """Compare the same systems in two runs."""
    return {name: (records, read(other)[name]) for name, records in read(run).items()}


def constrained() -> Pairs:
    """Compare constrained replies with free ones; `concat` is never constrained."""
    pairs = {}
    for size in ("0.5B", "1.5B"):
        for name, data in (("NQ", "nq"), ("HotpotQA", "hotpotqa")):
            systems = read(f"h200/forms-{data}-{size.lower()}")
            for method in ("crag", "self_ask", "blendfilter"):
                pairs[f"{size} | {name} | `{method}`"] = systems[method], systems[f"{method}[constrain=false]"]
    return pairs


def scored(pairs: Callable[[], Pairs], metric: str = "f1") -> dict[str, Outcome]:
    """Return the outcomes by a metric; where it has no value (no search, so no recall), it is 0."""
    outcomes = {}
    for name, both in pairs().items():
        rows = [[100 * record["scores"].get(metric, 0) for record in pair] for pair in common(*both)]
        first, second = zip(*rows, strict=True)
        result = compare(first, second)
        outcomes[name] = Outcome(mean(first), mean(second), result.difference, result.p)
    return outcomes


def auc(scores: Vector, labels: Vector) -> float:
    """Return the area under the ROC curve in percent: how often a right item scores above a wrong one; ties count half."""
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    right = labels.sum()
    return float(100 * (ranks[labels > 0].sum() / right - (right + 1) / 2) / (len(labels) - right))


def deciders() -> dict[str, Outcome]:
    """Compare the AUC of two deciders over the questions that both decided, by a bootstrap over questions."""
    rows: dict[tuple[str, ...], dict[str, Record]] = {}
    for row in map(json.loads, (RESULTS / "decisions.jsonl").read_text("utf-8").splitlines()):
        rows.setdefault((row["task"], row["model"], row["kind"]), {})[row["id"]] = row
    outcomes = {}
    for task, first, second in DECIDERS:
        sides = [rows[task, *side] for side in (first, second)]
        both = [[side[name] for side in sides] for name in sides[0] if name in sides[1]]
        labels = np.array([[*pair[0]["labels"]] for pair in both], float)
        scores = [np.array([pair[at]["scores"] for pair in both], float) for at in (0, 1)]
        areas, random = [], np.random.default_rng(0)
        for _ in range(2000):
            chosen = random.integers(0, len(both), len(both))
            areas.append([auc(side[chosen].ravel(), labels[chosen].ravel()) for side in scores])
        gains = np.array([first_area - second_area for first_area, second_area in areas])
        own, other = (auc(side.ravel(), labels.ravel()) for side in scores)
        low, high = np.quantile(gains, [0.025, 0.975])
        p = max(2 * float(min((gains <= 0).mean(), (gains >= 0).mean())), 1 / 2001)
        difference = Interval(own - other, float(low), float(high), len(both))
        outcomes[f"{task}: {' '.join(first)} − {' '.join(second)}"] = Outcome(own, other, difference, p)
    return outcomes


SMALL, LARGE, JUDGE = "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b", ("linear judge", "trained")
DECIDERS = (
    *(
        (task, (model, "log-probabilities"), (model, "form"))
        for model in (SMALL, LARGE)
        for task in ("grade", "filter", "known")
    ),
    ("known", JUDGE, (LARGE, "form")),
    ("known", JUDGE, (LARGE, "log-probabilities")),
)


def registered(run: str) -> Pairs:
    """Compare graph with hybrid retrieval in a run of `effect/PLAN.md`."""
    systems = read(f"effect/{run}")
    graph, hybrid = sorted(systems)
    return {graph.partition("[")[0]: (systems[graph], systems[hybrid])}


def secondary() -> Pairs:
    """Compare what the plan calls secondary, which is corrected for both."""
    return registered("cot") | beside("concat", "effect/concat_pf")


def exploratory() -> Pairs:
    """Compare what the plan calls exploratory."""
    return registered("musique") | beside("concat", "effect/skr")


FAMILIES: Mapping[str, Callable[[], dict[str, Outcome]]] = {
    "registered": partial(scored, partial(registered, "primary")),
    "registered, recall": partial(scored, partial(registered, "primary"), "recall"),
    "registered, secondary": partial(scored, secondary),
    "registered, exploratory": partial(scored, exploratory),
    "tables": partial(scored, partial(beside, "concat", "tables/named"), "right"),
    "tables, users' words": partial(scored, partial(beside, "concat", "tables/free"), "right"),
    "graph": partial(scored, partial(beside, "concat", GRAPH)),
    "graph or hybrid": partial(scored, partial(across, GRAPH, HYBRID)),
    "graph or hybrid, recall": partial(scored, partial(across, GRAPH, HYBRID), "recall"),
    "path told": partial(scored, partial(across, TOLD, "h200/hotpotqa-graph")),
    "constrained": partial(scored, constrained),
    "methods, NQ": partial(scored, partial(beside, "concat", "real_models/methods-nq")),
    "methods, HotpotQA": partial(scored, partial(beside, "concat", "real_models/methods-hotpotqa")),
    "methods, NQ, contains": partial(scored, partial(beside, "concat", "real_models/methods-nq"), "contains"),
    "methods, HotpotQA, contains": partial(
        scored, partial(beside, "concat", "real_models/methods-hotpotqa"), "contains"
    ),
    "fusion, SKR": partial(scored, partial(beside, "concat", "real_models/fusion-skr")),
    "fusion, NQ": partial(scored, partial(beside, "concat", "real_models/fusion-nq")),
    "filters, NQ": partial(scored, partial(beside, "filco full passages", "real_models/filco-nq")),
    "filters, HotpotQA": partial(scored, partial(beside, "filco full passages", "real_models/filco-hotpotqa")),
    "slimplm, contains": partial(scored, partial(beside, "slimplm", "real_models/slimplm-nq"), "contains"),
    "blendfilter": partial(scored, partial(beside, "blendfilter", "real_models/blendfilter-hotpotqa")),
    "deciders": deciders,
    "adaptive": partial(scored, partial(beside, "concat", "real_models/adaptive-hotpotqa")),
}


class Claim(NamedTuple):
    """A difference that a page states."""

    page: str
    family: str
    system: str


CLAIMS: tuple[Claim, ...] = (
    Claim("README.md", "registered", "concat"),
    Claim("README.md", "registered, secondary", "cot"),
    Claim("docs/results.md", "registered", "concat"),
    Claim("docs/results.md", "registered, recall", "concat"),
    Claim("docs/results.md", "registered, secondary", "cot"),
    Claim("docs/results.md", "registered, secondary", "concat_pf"),
    Claim("docs/results.md", "registered, exploratory", "concat"),
    Claim("docs/results.md", "registered, exploratory", "pf_concat"),
    Claim("docs/graph-retrieval.md", "registered, exploratory", "concat"),
    Claim("README.md", "fusion, NQ", "pf_concat"),
    Claim("README.md", "registered, secondary", "concat_pf"),
    Claim("docs/choose.md", "methods, NQ", "direct"),
    Claim("docs/choose.md", "registered, secondary", "concat_pf"),
    Claim("docs/choose.md", "fusion, NQ", "pf_concat"),
    Claim("docs/choose.md", "tables", "table_query"),
    Claim("docs/choose.md", "tables, users' words", "table_query"),
    Claim("docs/graph-retrieval.md", "registered", "concat"),
    Claim("docs/graph-retrieval.md", "registered, secondary", "cot"),
    Claim("benchmarks/README.md", "path told", "concat"),
    Claim("benchmarks/README.md", "path told", "cot[retrieve=true]"),
    Claim("benchmarks/README.md", "constrained", "1.5B | NQ | `self_ask`"),
    Claim("benchmarks/README.md", "deciders", "grade: qwen2.5-coder-1.5b log-probabilities − qwen2.5-coder-1.5b form"),
    Claim("benchmarks/README.md", "deciders", "filter: qwen2.5-coder-1.5b log-probabilities − qwen2.5-coder-1.5b form"),
    Claim("benchmarks/README.md", "deciders", "known: qwen2.5-coder-1.5b log-probabilities − qwen2.5-coder-1.5b form"),
    Claim("benchmarks/README.md", "deciders", "filter: qwen2.5-coder-0.5b log-probabilities − qwen2.5-coder-0.5b form"),
    Claim("benchmarks/README.md", "deciders", "known: linear judge trained − qwen2.5-coder-1.5b form"),
    Claim("benchmarks/README.md", "deciders", "known: linear judge trained − qwen2.5-coder-1.5b log-probabilities"),
    Claim("docs/train.md", "deciders", "known: linear judge trained − qwen2.5-coder-1.5b form"),
    Claim("benchmarks/README.md", "methods, NQ", "direct"),
    Claim("benchmarks/README.md", "methods, NQ", "cot"),
    Claim("benchmarks/README.md", "methods, HotpotQA", "direct"),
    Claim("benchmarks/README.md", "methods, HotpotQA", "blendfilter"),
    Claim("benchmarks/README.md", "methods, HotpotQA", "iter_retgen"),
    Claim("benchmarks/README.md", "methods, HotpotQA", "dos_rag"),
    Claim("benchmarks/README.md", "fusion, NQ", "concat_pf"),
    Claim("benchmarks/README.md", "fusion, NQ", "pf_concat"),
    Claim("benchmarks/README.md", "adaptive", "concat_pf"),
    Claim("benchmarks/README.md", "slimplm, contains", "slimplm w/o QJ"),
    Claim("benchmarks/README.md", "methods, NQ, contains", "slimplm"),
    Claim("benchmarks/README.md", "methods, HotpotQA, contains", "slimplm"),
)


@cache
def compared(family: str) -> Mapping[str, Outcome]:
    """Return the comparisons of a family by the name of what is compared, corrected."""
    outcomes = FAMILIES[family]()
    corrected = holm([outcome.p for outcome in outcomes.values()])
    return {name: outcome._replace(corrected=p) for (name, outcome), p in zip(outcomes.items(), corrected, strict=True)}


def p_text(p: float) -> str:
    """Return a p-value as pages show it."""
    return "< .001" if p < 0.001 else f"{p:.3f}".lstrip("0")


def by_gain(family: str) -> list[tuple[str, Outcome]]:
    """Return the comparisons of a family, the largest gain first."""
    return sorted(compared(family).items(), key=lambda item: -item[1].difference.mean)


def methods_table() -> tuple[str, list[list[str]]]:
    """Return the methods over graph retrieval: head and rows."""
    head = "method | F1 | EM | recall | Unknown, % | calls | tokens | questions | F1 − `concat` | p"
    systems = read(GRAPH)
    base = systems["concat"]
    rows = [["`concat`", *measures([*base.values()]), str(len(base)), "", ""]]
    for name, result in by_gain("graph"):
        records = [record for record, _ in common(systems[name], base)]
        rows.append([f"`{name}`", *measures(records), str(len(records)), result.text, p_text(result.corrected)])
    return head, rows


def measures(records: list[Record]) -> list[str]:
    """Return F1, EM, recall, the share of Unknown, calls and tokens, averaged."""
    scores = [f"{100 * mean([row['scores'].get(key, 0) for row in records]):.1f}" for key in ("f1", "em", "recall")]
    unknown = f"{100 * mean([row['status'] == 'unknown' for row in records]):.0f}"
    calls = f"{mean([row['usage']['calls'] for row in records]):.1f}"
    tokens = f"{mean([row['usage']['input_tokens'] + row['usage']['output_tokens'] for row in records]):,.0f}"
    return [*scores, unknown, calls, tokens]


def retrieval_table() -> tuple[str, list[list[str]]]:
    """Return graph and hybrid retrieval with the same methods: head and rows."""
    head = "method | questions | F1, hybrid | F1, graph | gain in F1 | p | recall, hybrid | recall, graph | gain in recall | p"
    rows = []
    for name, answers in by_gain("graph or hybrid"):
        cells = [f"`{name}`", str(answers.difference.n)]
        for result in (answers, compared("graph or hybrid, recall")[name]):
            cells += [f"{result.second:.1f}", f"{result.first:.1f}", result.text, p_text(result.corrected)]
        rows.append(cells)
    return head, rows


def main() -> None:
    """Print the claims, or all comparisons."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--all", action="store_true", help="every comparison of each family")
    options = parser.parse_args()
    every = [Claim("", family, system) for family in FAMILIES for system, _ in by_gain(family)]
    print("| page | compared | system | questions | difference | p | corrected |\n|---|---|---|---:|---|---:|---:|")
    for page, family, system in every if options.all else CLAIMS:
        result = compared(family)[system]
        cells = [page, family, system.replace(" | ", ", "), str(result.difference.n), result.text]
        print("|", " | ".join([*cells, p_text(result.p), p_text(result.corrected)]), "|")


if __name__ == "__main__":
    main()
