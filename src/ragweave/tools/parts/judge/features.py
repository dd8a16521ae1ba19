"""All that is read off the words of a question and its draft, as one row of numbers."""

from __future__ import annotations

from ragweave.tools.parts.judge import asking, hedges, rarity, shape
from ragweave.tools.parts.judge.rarity import Pieces

NAMES: tuple[str, ...] = (*asking.NAMES, *shape.NAMES, *hedges.NAMES, *rarity.NAMES)
"""Names of `features`, in order."""


def features(question: str, draft: str, pieces: Pieces) -> list[float]:
    """Return the features of a question and its draft, in the order of `NAMES`.

    White space around either text, and the kind of apostrophe, change nothing. Counts are log(1 + n), flags 0 or 1.

    Args:
        question: The question.
        draft: The draft answer; may be empty.
        pieces: The encoder's tokenizer, for how rare words are.
    """
    question, draft = (text.strip().replace("’", "'") for text in (question, draft))
    return [
        *asking.asking(question),
        *shape.draft_shape(question, draft),
        *hedges.hedging(draft),
        *rarity.rarity(question, draft, pieces),
    ]
