"""A table of a report as text cells, and the scores' names for readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SHOWN = {
    "em": "EM",
    "f1": "F1",
    "accuracy": "Accuracy",
    "coverage_em": "EM (ASQA)",
    "hit_at_1": "Hit@1",
    "rouge_1": "ROUGE-1",
    "rouge_2": "ROUGE-2",
    "rouge_l": "ROUGE-L",
    "unigram_f1": "Unigram F1",
    "contains": "Contains",
    "answer_share": "EM (share)",
    "unknown": "%Unk",
    "nm": "%NM",
    "recall": "Recall",
    "precision": "Precision",
    "s_precision": "S-Precision",
    "filter_precision": "Filter precision",
    "filter_recall": "Filter recall",
    "recall@1": "Recall@1",
    "recall@5": "Recall@5",
    "recall@10": "Recall@10",
    "recall@20": "Recall@20",
    "ndcg@10": "nDCG@10",
    "answer_recall": "Answer recall",
    "output_precision": "Output precision",
}
"""The scores in the order of a report, by the names that readers know; all in percent."""


@dataclass(frozen=True)
class Table:
    """A heading, the columns' names, the rows' cells, and remarks below."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    remarks: Sequence[str] = ()
