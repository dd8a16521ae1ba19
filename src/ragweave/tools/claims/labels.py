"""Labels for a retrieval-necessity judge: is a draft answer good enough? (SlimPLM section 3.2)."""

from __future__ import annotations

from collections.abc import Sequence

from ragweave.errors import UsageError
from ragweave.tools.text.normalize import normalize_answer

Gold = Sequence[str] | Sequence[Sequence[str]]
"""Gold short answers; each a text, or the list of its aliases."""


def match_ratio(draft: str, gold: Gold) -> float:
    """Return the share of gold short answers found in the draft (equation 2), in [0, 1].

    An answer is found if it, or one of its aliases, is a substring of the draft after answer
    normalisation of both (lower case, no punctuation or articles). That the substring need not
    end at word boundaries, and that the authors count every alias of a KILT question as an answer
    of its own (a flat list), is what reproduces their labels. An answer of which normalisation
    leaves nothing ("A", "The The") is sought as it stands, ignoring case.

    Args:
        draft: The heuristic answer.
        gold: The gold answers; none at all gives 0.0.
    """
    if isinstance(gold, str):
        gold = [gold]
    normal, lowered = normalize_answer(draft), draft.lower()
    found = [
        any(_stands_in(alias, normal, lowered) for alias in _aliases(answer)) for answer in gold
    ]
    return sum(found) / len(found) if found else 0.0


def known_label(draft: str, gold: Gold, theta: float = 0.5) -> bool:
    """Return the judge's training label: known if the match ratio exceeds `theta`.

    Args:
        draft: The heuristic answer.
        gold: The gold answers, see `match_ratio`.
        theta: θ; 0.5 reproduces the authors' labels.

    Raises:
        UsageError: `theta` is outside [0, 1].
    """
    if not 0 <= theta <= 1:
        raise UsageError(f"theta must be between 0 and 1, not {theta}")
    return match_ratio(draft, gold) > theta


def _aliases(answer: str | Sequence[str]) -> Sequence[str]:
    """Return the names of one answer."""
    return [answer] if isinstance(answer, str) else answer


def _stands_in(alias: str, normal: str, lowered: str) -> bool:
    """Is one name found in the draft, given normalised and merely lower-cased?"""
    wanted = normalize_answer(alias)
    if wanted:
        return wanted in normal
    return bool(alias.strip()) and alias.strip().lower() in lowered
