"""Labels (SlimPLM, FILCO): training rows out of labelled questions."""

from ragweave.tools.scorers.specs import scorer_of_spec
from ragweave.training.labels.finish import Labelled
from ragweave.training.labels.gold import Aliases, short_gold
from ragweave.training.labels.judge import JudgeLabeler
from ragweave.training.labels.maker import Dropped, Labeler, Made
from ragweave.training.labels.passages import Passages
from ragweave.training.labels.rewrite import RewriteLabeler
from ragweave.training.labels.run import make_labels
from ragweave.training.labels.silver import MEASURES, SilverLabeler
from ragweave.training.labels.sitting import LabelConfig
from ragweave.training.labels.source import Bad, Item, Source, open_source
from ragweave.training.labels.specs import redacted
from ragweave.training.labels.target import canonical, target_text

__all__ = [
    # questions
    "Source",
    "Item",
    "Bad",
    "open_source",
    # kinds of label
    "Labeler",
    "Made",
    "Dropped",
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
