"""What README and docs say about recorded answers: each difference is computed again, and is tested or "not certain"."""

from __future__ import annotations

import re
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


def test_holms_correction_is_over_the_whole_family() -> None:
    """`cot` by graph retrieval: p .043 alone, .43 among ten comparisons."""
    outcome = compared("graph or hybrid")["cot[retrieve=true]"]
    assert outcome.difference.n == 52
    assert outcome.p == pytest.approx(0.043, abs=0.002)
    assert outcome.corrected == pytest.approx(10 * outcome.p)
    assert not outcome.certain
    assert compared("graph or hybrid, recall")["concat"].certain
    assert Claim("README.md", "registered", "concat") in CLAIMS


@pytest.mark.skipif(not DATA.exists(), reason="the public data do not stand beside the checkout")
def test_the_registered_experiment_asked_what_its_plan_draws() -> None:
    """240 questions by the SHA-256 of their ids, or of a hash of those without one, each of both systems, none with an error."""
    drawn = set()
    for path in ("hotpotqa/hotpot-dev-200.jsonl.gz", "2wiki/2wiki-train-500.json.gz"):
        ids = [item.id for item in open_dataset(f"hotpotqa:{DATA / path}")]
        drawn |= {*sorted(ids, key=lambda name: sha256(name.encode()).hexdigest())[:120]}
    for run, both in (
        ("primary", ["concat[retriever=graph]", "concat[retriever=hybrid]"]),
        ("cot", ["cot[retrieve=true,retriever=graph]", "cot[retrieve=true,retriever=hybrid]"]),
    ):
        assert asked(f"effect/{run}") == dict.fromkeys(both, drawn)
    assert len(drawn) == 240
    open_nq = open_dataset(f"nq:{DATA / 'nq/nq-open-oracle.jsonl.gz'}")
    hashes = [sha256(item.question.encode()).hexdigest()[:16] for item in open_nq]
    drawn = {*sorted(hashes, key=lambda name: sha256(name.encode()).hexdigest())[:240]}
    assert asked("effect/concat_pf") == dict.fromkeys(["concat_pf", "concat"], drawn)


def asked(run: str) -> dict[str, set[str]]:
    """Return the questions that were answered without an error, by system."""
    return {system: {name for _, name in records} for system, records in read(run).items()}
