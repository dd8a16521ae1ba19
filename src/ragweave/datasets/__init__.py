"""Data sets in their own published formats, read into one record."""

from __future__ import annotations

from ragweave.datasets.dataset import DATASETS, Dataset, open_dataset
from ragweave.datasets.question import Question, Scoring, passage

__all__ = ["DATASETS", "Dataset", "Question", "Scoring", "open_dataset", "passage"]
