"""When to retrieve: routes chosen for recorded answers of a large model, by cross-validation.

    python benchmarks/routing.py [--no-plot]

Reads `../shared/data/recorded-llama31-8b` (six data sets, 500 questions each, what
Llama-3.1-8B-Instruct answered without retrieval, after one round of BM25 and by IRCoT) and asks
what each way of routing would have reached. All that is trained is trained on four folds of the
questions and measured on the fifth, over all data sets together; no feature sees a gold answer or
the data set's name. An answer is right where it contains a gold answer (In-Accuracy).

* Fixed: never, always one round, always many rounds (IRCoT). Ideal: the cheapest right route.
* `today`: the linear judge of `ragweave train judge` on question and reasoning, trained here on
  whether the answer without retrieval was right; the least sure are retrieved for.
* `draft`, `draft + vectors`, `… + words`: the router's features, without and with MiniLM vectors and
  hashed words; `+ look` adds what four lexical searches of a corpus of 20,662 passages say
  (`look_features`; the passages are those of `../shared/data`, not the Wikipedia that the recorded
  rounds searched).
* Each is shown twice: by how sure it is of the answer without retrieval, and by what one round adds
  (`gain`: the probability that one round is right, less that none is).
* `router`: two ways and three, as `ragweave train router` trains it; `dealings`: the points over the
  better fixed route, with the folds dealt four times.

Luck: how often one round mends what no retrieval got wrong, or spoils what it got right, and how
often many rounds, the other answer with retrieval, agree: what they don't agree on is no property of
the question that a router could learn.

Curves: accuracy over the share of questions retrieved for, each data set's questions ranked among
themselves. Operating points: the threshold is chosen on the other folds so that at most 60 % are
retrieved for. Intervals: 95 %, bootstrap over questions; differences are paired.

The uncertainty gate is not among them: no log-probabilities were recorded, and those of another
model would say nothing of this one. Vectors and looks are kept in `benchmarks/.routing`.
Writes `results/routing.json` and `results/routing.png`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.documents import Document
from rich.console import Console

from ragweave.datasets import open_dataset
from ragweave.datasets.recorded import Recording, read_recordings
from ragweave.state.records import ROUTES
from ragweave.tools.retrieval import Bm25Retriever
from ragweave.tools.statistics import Interval, bootstrap
from ragweave.trained.judge_reading import load_encoder, read_pairs
from ragweave.trained.router import RouterRead, read_drafts
from ragweave.trained.router_features import draft_features, look_features, look_queries
from ragweave.trained.router_words import hashed_words
from ragweave.training.encoders.linear import LinearSettings, fit_block
from ragweave.training.encoders.linear_rows import reference_moments
from ragweave.training.encoders.router import (
    RouterSettings,
    best_threshold,
    folds_of,
    out_of_fold,
    routes_of,
)
from ragweave.training.measures import auc_interval

sys.path.insert(0, str(Path(__file__).parent))
from routing_report import draw, show

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"
RESULTS = ROOT / "benchmarks" / "results"
KEPT = ROOT / "benchmarks" / ".routing"
SETS = {
    "nq": "NQ",
    "trivia": "TriviaQA",
    "squad": "SQuAD",
    "hotpotqa": "HotpotQA",
    "2wikimultihopqa": "2Wiki",
    "musique": "MuSiQue",
}
CORPUS = (
    "nq/nq-open-oracle.jsonl.gz",
    "nq/dpr-one-passage.jsonl.gz",
    "hotpotqa/hotpot-dev-200.jsonl.gz",
    "hotpotqa/hotpot-train-100.json.gz",
    "2wiki/2wiki-train-500.json.gz",
    "musique/musique-train-100.json.gz",
    "fusion/skr-dev-10-passages.json.gz",
    "fusion/popqa-1000.json.gz",
    "abstain/squad2-dev-sample.json.gz",
)
AT_MOST, FOLDS, DEALINGS = 0.6, 5, 4
GOAL_AUC, GOAL_POINTS, GOAL_SETS = 0.75, 0.03, ("nq", "trivia", "2wikimultihopqa")
SHARES = np.round(np.arange(0, 1.0001, 0.05), 2)
SETTINGS = RouterSettings(folds=FOLDS)
WAY, LOOKING = "draft + vectors + words", "draft + vectors + words + look"
"""What `ragweave train router` trains, without `--kb` and with it."""


@dataclass
class Rows:
    """All questions, in one order."""

    recordings: list[Recording]
    data: np.ndarray
    right: np.ndarray
    """(n, 3): by route."""
    fold: np.ndarray

    def of(self, name: str) -> np.ndarray:
        """Return which questions belong to a data set, or all."""
        return np.ones(len(self.data), bool) if name == "all" else self.data == name

    @property
    def asked(self) -> list[str]:
        """Return the questions, by which folds are dealt."""
        return [one.question for one in self.recordings]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Question and draft: all that features read."""
        replies = [(one.question, one.replies["none"]) for one in self.recordings]
        return [(asked, reply.reasoning or reply.answer) for asked, reply in replies]


def rows_of() -> Rows:
    """Read the recordings."""
    found, names = [], []
    for name in SETS:
        listed = read_recordings(DATA / "recorded-llama31-8b" / f"{name}.jsonl.gz")
        found += listed
        names += [name] * len(listed)
    right = np.asarray([[one.right()[route] for route in ROUTES] for one in found])
    made = Rows(found, np.asarray(names), right, np.zeros(len(found), int))
    return replace(made, fold=folds_of(made.asked, FOLDS, SETTINGS.seed))


def kept(name: str, make: Callable[[], np.ndarray]) -> np.ndarray:
    """Return what was computed before, or compute and keep it."""
    KEPT.mkdir(exist_ok=True)
    (KEPT / ".gitignore").write_text("*\n")
    file = KEPT / f"{name}.npy"
    if not file.is_file():
        np.save(file, make(), allow_pickle=False)
    return np.load(file, allow_pickle=False)


def look(rows: Rows) -> np.ndarray:
    """Search the shared passages for every question."""
    passages = [doc for name in CORPUS for doc in open_dataset(str(DATA / name)).corpus()]
    with gzip.open(DATA / "2wiki" / "2wiki-corpus-6119.json.gz", "rt", encoding="utf-8") as file:
        more = [Document(one["text"], metadata={"title": one["title"]}) for one in json.load(file)]
    unique = {(doc.metadata.get("title"), doc.page_content): doc for doc in [*passages, *more]}
    retriever = Bm25Retriever.from_documents(unique.values())

    def found(question: str, draft: str) -> dict[str, list[Document]]:
        queries = look_queries(question, draft)
        return {query: retriever.find(query, k) for query, k in queries.items()}

    return np.asarray([look_features(*pair, found(*pair)) for pair in rows.pairs])


def today(rows: Rows) -> np.ndarray:
    """Read the features and vectors of the linear judge."""
    encoder = load_encoder("minilm", device="cpu")
    known: list[Any] = [{"question": asked, "draft": said, "known": True} for asked, said in rows.pairs]
    reference = reference_moments(known, encoder, 0)
    parts = [read_pairs(rows.pairs[at : at + 32], encoder, reference) for at in range(0, len(rows.pairs), 32)]
    return np.vstack([np.hstack(part) for part in parts])


def meaning(rows: Rows) -> np.ndarray:
    """Return the router's vectors."""
    encoder = load_encoder("minilm", device="cpu")
    pairs = rows.pairs
    parts = [read_drafts(pairs[at : at + 64], encoder).meaning for at in range(0, len(pairs), 64)]
    return np.vstack(parts)


def known_by_judge(rows: Rows, surface: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return today's judge's logit of each question, fitted on the other folds."""
    settings = LinearSettings()
    found = np.zeros(len(rows.data))
    for number in range(FOLDS):
        rest = rows.fold == number
        for block, strength in (
            (surface, settings.surface_strength),
            (vectors, settings.meaning_strength),
        ):
            weights, bias = fit_block(block[~rest], rows.right[~rest, 0], strength)
            found[rest] += block[rest] @ weights + bias
    return found


def contestants(rows: Rows) -> Iterator[tuple[str, np.ndarray, np.ndarray, RouterRead | None]]:
    """Yield name, how sure each way is of the answer without retrieval, gain, and what it read."""
    vectors = kept("meaning", lambda: meaning(rows))
    judge = kept("judge", lambda: today(rows))
    size = vectors.shape[1]
    sure = known_by_judge(rows, judge[:, :-size], judge[:, -size:])
    yield "today: linear judge", sure, -sure, None
    drafts = np.asarray([draft_features(*pair) for pair in rows.pairs])
    looks = kept("look", lambda: look(rows))
    none = np.zeros((len(drafts), 1))
    said = [hashed_words(*pair) for pair in rows.pairs]
    for name, surface, block, share in (
        ("draft", drafts, none, 0.0),
        ("draft + vectors", drafts, vectors, 0.0),
        (WAY, drafts, vectors, SETTINGS.word_share),
        (LOOKING, np.hstack([drafts, looks]), vectors, SETTINGS.word_share),
    ):
        read, settings = RouterRead(surface, block, said), replace(SETTINGS, word_share=share)
        chances = out_of_fold(read, rows.right, rows.asked, settings)
        yield name, chances[:, 0], chances[:, 1] - chances[:, 0], read


def curve(rows: Rows, chosen: np.ndarray, order: np.ndarray, dear: int) -> list[float]:
    """Return accuracy where the first shares in `order` take a route and the rest none."""
    none, other = rows.right[chosen, 0], rows.right[chosen, dear]
    rank = np.argsort(-order[chosen], kind="stable")
    gained = np.concatenate([[0], np.cumsum(other[rank].astype(int) - none[rank].astype(int))])
    at = np.round(SHARES * len(rank)).astype(int)
    return [float((none.sum() + gained[one]) / len(rank)) for one in at]


def operating_point(rows: Rows, chosen: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return who is retrieved for, by a threshold that the other folds chose."""
    taken = np.zeros(len(order), bool)
    for number in range(FOLDS):
        rest, here = chosen & (rows.fold != number), chosen & (rows.fold == number)
        cuts = np.quantile(order[rest], 1 - SHARES[SHARES <= AT_MOST])
        reached = [np.where(order[rest] > cut, rows.right[rest, 1], rows.right[rest, 0]).mean() for cut in cuts]
        taken[here] = order[here] > cuts[int(np.argmax(reached))]
    return taken


def routed(rows: Rows, chosen: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """Return the number of each question's route, by a threshold that the other folds chose."""
    routes = np.zeros(len(chances), int)
    for number in range(FOLDS):
        rest, here = chosen & (rows.fold != number), chosen & (rows.fold == number)
        threshold = best_threshold(chances[rest], rows.right[rest], AT_MOST)
        routes[here] = routes_of(chances[here], threshold)
    return routes


def plain(found: Interval) -> dict[str, float]:
    return {name: round(value, 4) for name, value in asdict(found).items()}


def point(rows: Rows, chosen: np.ndarray, routes: np.ndarray, fixed: tuple[int, ...]) -> Any:
    """Return accuracy, shares, and the paired difference to the best of fixed routes."""
    right = rows.right[chosen]
    hits = right[np.arange(len(right)), routes[chosen]].astype(float)
    best = max(fixed, key=lambda at: right[:, at].mean())
    against = {0: "never", 1: "always one", 2: "always many"}[best]
    return {
        "accuracy": plain(bootstrap(hits.tolist())),
        "retrieved": round(float((routes[chosen] > 0).mean()), 4),
        "many": round(float((routes[chosen] > 1).mean()), 4),
        "against": against,
        "difference": plain(bootstrap((hits - right[:, best]).tolist())),
    }


def measured(rows: Rows) -> dict[str, Any]:
    """Measure every way on every data set and on all."""
    report: dict[str, Any] = {"shares": SHARES.tolist(), "fixed": {}, "ways": {}, "router": {}}
    names = [*SETS, "all"]
    for name in names:
        right = rows.right[rows.of(name)]
        policies = {route: right[:, at] for at, route in enumerate(("never", "one", "many"))}
        policies["ideal: none | one"] = right[:, :2].any(axis=1)
        policies["ideal: none | one | many"] = right.any(axis=1)
        report["fixed"][name] = {key: plain(bootstrap(one.astype(float).tolist())) for key, one in policies.items()}
    report["luck"] = {name: luck(rows.right[rows.of(name)]) for name in names}
    for way, sure, gain, read in contestants(rows):
        report["ways"][way] = {name: _measured(rows, rows.of(name), sure, gain) for name in names}
        if read is not None and way in (WAY, LOOKING):
            report["router"][way] = _routed(rows, read, names)
    return report


def _routed(rows: Rows, read: RouterRead, names: list[str]) -> dict[str, Any]:
    """Measure a router, with two ways and with three, and again with the folds dealt anew."""
    found: dict[str, Any] = {}
    for seed in range(SETTINGS.seed, SETTINGS.seed + DEALINGS):
        dealt = replace(rows, fold=folds_of(rows.asked, FOLDS, seed))
        three = out_of_fold(read, rows.right, rows.asked, replace(SETTINGS, seed=seed))
        two = np.column_stack([three[:, :2], np.full(len(three), -1.0)])
        for name in names:
            here = rows.of(name)
            for way, chances in (("none | one", two), ("none | one | many", three)):
                routes = routed(dealt, here, chances)
                one = found.setdefault(way, {}).setdefault(name, {})
                if seed == SETTINGS.seed:
                    one |= point(rows, here, routes, (0, 1))
                    one["beside many"] = point(rows, here, routes, (0, 1, 2))["difference"]
                right = rows.right[here]
                hits = right[np.arange(len(right)), routes[here]].mean()
                gained = float(hits - right[:, :2].mean(axis=0).max())
                one.setdefault("dealings", []).append(round(gained, 4))
    return found


def luck(right: np.ndarray) -> dict[str, float]:
    """Return the shares that one round mends and spoils, and of these what many rounds confirm."""
    none, one, many = right.T
    mends, spoils = one & ~none, none & ~one
    shares = {
        "mends": mends.mean(),
        "mended by many rounds too": many[mends].mean(),
        "spoils": spoils.mean(),
        "spoilt by many rounds too": (~many[spoils]).mean(),
        "one and many differ": (one != many).mean(),
    }
    return {name: round(float(value), 4) for name, value in shares.items()}


def _measured(rows: Rows, chosen: np.ndarray, sure: np.ndarray, gain: np.ndarray) -> Any:
    found: dict[str, Any] = {"auc": plain(auc_interval(sure[chosen].tolist(), rows.right[chosen, 0].tolist()))}
    for order, values in (("by sureness", -sure), ("by gain", gain)):
        taken = operating_point(rows, chosen, values).astype(int)
        found[order] = {
            "curve": [round(one, 4) for one in curve(rows, chosen, values, 1)],
            "curve_many": [round(one, 4) for one in curve(rows, chosen, values, 2)],
            "point": point(rows, chosen, taken, (0, 1)),
        }
    return found


def goals(report: dict[str, Any]) -> dict[str, Any]:
    """Say which goals are met, by the best way without a look."""
    way, router = WAY, report["router"][WAY]
    found: dict[str, Any] = {
        "auc": {"wanted": GOAL_AUC, **report["ways"][way]["all"]["auc"]},
        "points": {},
    }
    found["auc"]["met"] = found["auc"]["mean"] >= GOAL_AUC
    for name in GOAL_SETS:
        found["points"][name] = {
            label: {
                "difference": one[name]["difference"]["mean"],
                "retrieved": one[name]["retrieved"],
                "met": one[name]["difference"]["mean"] >= GOAL_POINTS and one[name]["retrieved"] <= AT_MOST,
            }
            for label, one in router.items()
        }
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-plot", action="store_true")
    options = parser.parse_args()
    console = Console(width=170)
    if not (DATA / "recorded-llama31-8b").exists():
        console.print("needs ../shared/data/recorded-llama31-8b")
        return 2
    rows = rows_of()
    report = measured(rows)
    report["goals"] = goals(report)
    report["questions"] = {name: int(rows.of(name).sum()) for name in SETS}
    show(console, report, SETS)
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(report, indent=1) + "\n"
    (RESULTS / "routing.json").write_text(text, encoding="utf-8")
    if not options.no_plot:
        draw(report, RESULTS / "routing.png", SETS)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
