"""What the four papers print: every table and figure, declared once."""

from ragweave.evaluation.published.data import PaperData, data_of
from ragweave.evaluation.published.tables import (
    PAPERS,
    PaperTable,
    PublishedResult,
    TableRow,
    all_published,
    paper_tables,
    published_result,
    tables_of_paper,
)

__all__ = [
    "PAPERS",
    "PaperData",
    "PaperTable",
    "PublishedResult",
    "TableRow",
    "all_published",
    "data_of",
    "paper_tables",
    "published_result",
    "tables_of_paper",
]
