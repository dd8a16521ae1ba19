"""Labels (SlimPLM, FILCO): training rows out of labelled questions."""

from ragweave.tools.claims import Aliases
from ragweave.tools.scorers.specs import scorer_of_spec
from ragweave.tools.text.secrets import redacted
from ragweave.training.labels.cluster import LabelerSpec
from ragweave.training.labels.journal import Labelled
from ragweave.training.labels.judge import JudgeLabeler
from ragweave.training.labels.labeler import DroppedRow, LabelConfig, Labeler, LabelledRow
from ragweave.training.labels.rewrite import RewriteLabeler, canonical, target_text
from ragweave.training.labels.run import make_labels
from ragweave.training.labels.silver import MEASURES, SilverLabeler
from ragweave.training.labels.silver_passages import Passages
from ragweave.training.labels.source import (
    InvalidRow,
    Item,
    Source,
    open_source,
    short_gold,
)

__all__ = [
    # questions
    "Source",
    "Item",
    "InvalidRow",
    "open_source",
    # kinds of label
    "Labeler",
    "LabelerSpec",
    "LabelledRow",
    "DroppedRow",
    "JudgeLabeler",
    "RewriteLabeler",
    "SilverLabeler",
    "MEASURES",
    "Passages",
    # the engine
    "make_labels",
    "LabelConfig",
    "Labelled",
    # gold, targets, specs
    "Aliases",
    "short_gold",
    "target_text",
    "canonical",
    "redacted",
    "scorer_of_spec",
]
