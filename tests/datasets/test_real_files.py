"""The published files that stand beside the checkout, where they do."""

from __future__ import annotations

import pytest
from tests.evaluation.files import SHARED

from ragweave.datasets import open_dataset

FILES = [
    ("nq", "nq/nq-open-oracle.jsonl.gz", 1595, 1595),
    ("nq", "nq/dpr-one-passage.jsonl.gz", 1815, 1815),
    ("hotpotqa", "hotpotqa/hotpot-dev-200.jsonl.gz", 200, 200),
    ("hotpotqa", "hotpotqa/hotpot-train-100.json.gz", 100, 100),
    ("2wiki", "2wiki/2wiki-train-500.json.gz", 500, 500),
    ("musique", "musique/musique-train-100.json.gz", 100, 100),
    ("strategyqa", "strategyqa/strategyqa-train.json.gz", 2061, 2061),
    ("squad", "abstain/squad2-dev-sample.json.gz", 6078, 6078),
    ("qed", "filter/qed-dev.jsonl.gz", 814, 814),
    ("clapnq", "filter/clapnq-answerable.jsonl.gz", 300, 299),
    ("fool_me_twice", "fever/fool-me-twice-dev.jsonl.gz", 1169, 1169),
    ("popqa", "fusion/popqa-1000.json.gz", 1000, 1000),
    ("skr", "fusion/skr-dev-10-passages.json.gz", 175, 0),
]


@pytest.mark.skipif(not SHARED.exists(), reason="the data files do not stand beside the checkout")
@pytest.mark.parametrize(("name", "file", "questions", "with_gold"), FILES)
def test_a_published_file_reads_whole(name: str, file: str, questions: int, with_gold: int) -> None:
    named, sniffed = open_dataset(f"{name}:{SHARED / file}"), open_dataset(str(SHARED / file))
    read = list(named)
    assert len(read) == questions
    assert sum(bool(one.gold) for one in read) == with_gold
    assert all(one.answers for one in read if one.answerable)
    assert sniffed.form is named.form
