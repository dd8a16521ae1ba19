"""Published question sets, read as their authors, the hub and FlashRAG publish them."""

from ragweave.datasets.dataset import FORMATS, Dataset, open_dataset, select
from ragweave.datasets.question import Format, Question
from ragweave.datasets.subsets import SUBSETS

__all__ = ["FORMATS", "SUBSETS", "Dataset", "Format", "Question", "open_dataset", "select"]
