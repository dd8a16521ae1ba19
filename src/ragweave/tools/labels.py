"""Labels of drafts: how much of the gold answers a draft holds, and so whether its model knows.

Source: SlimPLM (Tan et al. 2024), section 3.2 and equation 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ragweave.errors import UsageError
from ragweave.tools.text.normalize import normalize_answer

Name: TypeAlias = str | int | float
"""An answer as text; data sets also write years and counts as numbers."""
Gold: TypeAlias = Name | Sequence[Name | Sequence[Name]]
"""Gold short answers: a name, the aliases of one answer, or a list of aliases for each answer."""


def match_ratio(draft: str, gold: Gold, *, apart: bool = False) -> float:
    """Return the share of gold short answers found in a draft (equation 2), from 0 to 1.

    An answer is found if one of its names is a substring of the draft after answer normalisation of both; it need
    not end at word boundaries, which is what reproduces the authors' labels. A name of which normalisation leaves
    nothing ("A") is sought as it stands, ignoring case.

    Args:
        draft: The draft.
        gold: The gold answers.
        apart: Whether each name counts as an answer of its own, as the authors count the aliases of KILT.

    Raises:
        UsageError: A gold answer is neither text nor number, nor a list of such.
    """
    answers = _answers(gold)
    if apart:
        answers = [[name] for names in answers for name in names]
    found = [any(_stands_in(name, draft) for name in names) for names in answers]
    return sum(found) / len(found) if found else 0.0


def known_label(draft: str, gold: Gold, theta: float = 0.5, *, apart: bool = False) -> bool:
    """Return the judge's training label: known if the match ratio exceeds θ; 0.5 reproduces the authors' labels."""
    return match_ratio(draft, gold, apart=apart) > theta


def is_yes_no(gold: Gold) -> bool:
    """Say whether nothing but yes or no is gold: "no" stands in every "I do not know", so no draft can be labelled."""
    names = {name.strip().lower() for names in _answers(gold) for name in names}
    return bool(names) and names <= {"yes", "no"}


def _answers(gold: Any) -> list[list[str]]:
    """Return the names of each answer; blank names and nulls are left out."""
    listed = gold if isinstance(gold, list | tuple) else [gold]
    if not any(isinstance(one, list | tuple) for one in listed):
        listed = [listed]
    groups = [one if isinstance(one, list | tuple) else [one] for one in listed]
    return [
        names for group in groups if (names := [_name(one) for one in group if one is not None and str(one).strip()])
    ]


def _name(one: object) -> str:
    if isinstance(one, bool) or not isinstance(one, str | int | float):
        raise UsageError(f"a gold answer must be a string or a number, not {one!r}")
    return str(one)


def _stands_in(name: str, draft: str) -> bool:
    wanted = normalize_answer(name)
    return wanted in normalize_answer(draft) if wanted else name.strip().lower() in draft.lower()
