"""Data sets in their own published formats, read into one record."""

from ragweave.evaluation.datasets.dataset import Dataset, open_dataset
from ragweave.evaluation.datasets.question import Question, Scoring, passage
from ragweave.evaluation.datasets.registry import DATASETS

__all__ = ["DATASETS", "Dataset", "Question", "Scoring", "open_dataset", "passage"]
