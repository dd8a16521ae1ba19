"""What README and docs say about recorded answers: each difference is computed again, and is tested or "not certain"."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from benchmarks.claims import CLAIMS, FAMILIES, Claim, compared, read
from benchmarks.passage_sets import DATA

from ragweave.datasets import open_dataset

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "docs/results.md",
    "docs/choose.md",
    "docs/train.md",
    "docs/graph-retrieval.md",
    "benchmarks/README.md",
)
GENERATED = re.compile(r"<!-- ([\w ]+): begin -->.*?<!-- \1: end -->", re.S)
DIFFERENCE = re.compile(r"[+−]?\d+\.\d \[−?\d+\.\d, −?\d+\.\d\]")
POINTS = re.compile(r"\d points?\b")
UNCERTAIN = re.compile(r"not (certain|significant)")


def sentences(page: str) -> list[str]:
    """Return a page's sentences and rows, without what `docs/sync.py` writes."""
    text = GENERATED.sub("", (ROOT / page).read_text("utf-8"))
    return re.split(r"(?<=[.;])\s+|\n", text)


@pytest.mark.parametrize("page", PAGES)
def test_a_difference_is_certain_or_called_not_certain(page: str) -> None:
    claims = [compared(claim.family)[claim.system] for claim in CLAIMS if claim.page == page]
    certain = {outcome.text: outcome.certain for outcome in claims}
    shown = {difference: sentence for sentence in sentences(page) for difference in DIFFERENCE.findall(sentence)}
    assert shown.keys() == certain.keys(), "a difference that no claim computes, or a claim that the page lacks"
    wrong = {text for text, sentence in shown.items() if certain[text] == bool(UNCERTAIN.search(sentence))}
    assert wrong == set(), "not certain, and not called so; or the other way round"


@pytest.mark.parametrize("page", PAGES)
def test_points_have_an_interval(page: str) -> None:
    points = [text for text in sentences(page) if POINTS.search(text)]
    assert [text for text in points if not DIFFERENCE.search(text) and not UNCERTAIN.search(text)] == []


def test_a_claim_is_about_what_was_recorded() -> None:
    unknown = [claim for claim in CLAIMS if claim.page not in PAGES or claim.system not in compared(claim.family)]
    assert unknown == []
    assert {family for _, family, _ in CLAIMS} <= FAMILIES.keys()


def test_rescaled_cosines_have_the_same_recall() -> None:
    measured = json.loads((ROOT / "benchmarks/results/graph_retrieval.json").read_text("utf-8"))
    modes = ("dense", "hybrid", "graph")
    for name in ("2wiki", "hotpotqa", "musique"):
        rescaled, plain = (measured[table][name] for table in ("sets, rescaled", "sets"))
        assert [rescaled[mode] for mode in modes] == [plain[mode] for mode in modes]


def test_holms_correction_is_over_the_whole_family() -> None:
    """`cot` by graph retrieval: p .043 alone, .43 among ten comparisons."""
    outcome = compared("graph or hybrid")["cot[retrieve=true]"]
    assert outcome.difference.n == 52
    assert outcome.p == pytest.approx(0.043, abs=0.002)
    assert outcome.corrected == pytest.approx(10 * outcome.p)
    assert not outcome.certain
    assert compared("graph or hybrid, recall")["concat"].certain
    assert Claim("README.md", "registered", "concat") in CLAIMS


TWO_HOPS = ("hotpotqa:hotpotqa/hotpot-dev-200.jsonl.gz", "hotpotqa:2wiki/2wiki-train-500.json.gz")


@pytest.mark.skipif(not DATA.exists(), reason="the public data do not stand beside the checkout")
@pytest.mark.parametrize(
    ("run", "systems", "files", "count"),
    [
        ("primary", "concat[retriever=graph] concat[retriever=hybrid]", TWO_HOPS, 120),
        ("cot", "cot[retrieve=true,retriever=graph] cot[retrieve=true,retriever=hybrid]", TWO_HOPS, 120),
        ("concat_pf", "concat_pf concat", ["nq:nq/nq-open-oracle.jsonl.gz"], 240),
        ("skr", "pf_concat concat", ["skr:fusion/skr-dev-10-passages.json.gz"], 175),
        (
            "musique",
            "concat[retriever=graph] concat[retriever=hybrid]",
            ["musique:musique/musique-train-100.json.gz"],
            100,
        ),
    ],
)
def test_the_registered_experiment_asked_what_its_plan_draws(
    run: str, systems: str, files: Sequence[str], count: int
) -> None:
    """The questions with the lowest SHA-256 of their ids, or of a hash where a file has none: both systems, no error."""
    drawn = set()
    for file in files:
        form, path = file.split(":")
        items = open_dataset(f"{form}:{DATA / path}")
        ids = [digest(item.question)[:16] if form == "nq" else item.id for item in items]
        drawn |= {*sorted(ids, key=digest)[:count]}
    assert asked(run) == dict.fromkeys(systems.split(), drawn)


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def asked(run: str) -> dict[str, set[str]]:
    """Return the questions that were answered without an error, by system."""
    return {system: {name for _, name in records} for system, records in read(f"effect/{run}").items()}
