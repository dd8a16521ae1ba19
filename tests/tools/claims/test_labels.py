"""Judge labels: the match ratio, and the authors' own labels."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.errors import UsageError
from ragweave.tools.claims import known_label, match_ratio

DATA = Path(__file__).parents[4] / "shared" / "data" / "slimplm"


@pytest.mark.parametrize(
    ("draft", "gold", "wanted"),
    [
        ("It was Paris.", ["Paris"], 1.0),
        ("It was PARIS, not Rome.", ["paris", "London"], 0.5),
        ("The U.S. won", ["US"], 1.0),
        ("parisian", ["Paris"], 1.0),
        ("New York City", [["NYC", "New York"], ["Boston"]], 0.5),
        ("New York City", [["NYC", "New York"]], 1.0),
        ("", ["Paris"], 0.0),
        ("anything", [], 0.0),
        ("anything", [[]], 0.0),
        ("The band is The The.", ["The The"], 1.0),
        ("No such band.", ["The The"], 0.0),
        ("anything", ["", " "], 0.0),
        ("It was Paris.", "Paris", 1.0),
        ("In 1999", 1999, 1.0),
        ("In 1999, 3 times", [1999, ["thrice", 3], 7], 2 / 3),
    ],
)
def test_match_ratio(draft, gold, wanted):
    assert match_ratio(draft, gold) == wanted


def test_known_needs_more_than_theta():
    assert not known_label("Paris", ["Paris", "Rome"])
    assert known_label("Paris", ["Paris", "Rome"], theta=0.4)
    assert not known_label("Paris", ["Paris"], theta=1.0)


@pytest.mark.parametrize("theta", [-0.1, 1.1, "0.5", None, float("nan")])
def test_theta_out_of_range(theta):
    with pytest.raises(UsageError, match="theta"):
        known_label("Paris", ["Paris"], theta)


@given(st.text(max_size=50), st.lists(st.text(max_size=8) | st.lists(st.text(max_size=8))))
def test_the_ratio_is_a_share(draft, gold):
    assert 0 <= match_ratio(draft, gold) <= 1


@given(st.text(max_size=30), st.text(alphabet="bcd", min_size=1), st.text(max_size=30))
def test_an_answer_that_stands_in_the_draft_is_found(before, answer, after):
    assert match_ratio(f"{before} {answer} {after}", [answer]) == 1.0


@pytest.mark.parametrize("split", ["train", "dev"])
def test_agrees_with_the_authors_labels(split):
    path = DATA / f"judge-llama7b-{split}.jsonl.gz"
    if not path.exists():
        pytest.skip(f"needs the authors' judge data: ../shared/data/slimplm/{path.name}")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    agree = [
        known_label(row["llama7b_without_search_answer"], row.get("short_answers") or row["answer"])
        is row["known"]
        for row in rows
    ]
    assert len(agree) == 400
    assert sum(agree) / len(agree) >= 0.98
