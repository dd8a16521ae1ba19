"""What a labelling is asked for, and the records that labellers return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ragweave.tools.text.normalize import normalize_answer


@dataclass(frozen=True, kw_only=True)
class LabelSettings:
    """All that labels depend on."""

    kind: str
    """`judge`, `rewrite`, `filter` or `needed`."""
    data: str
    """A data set's spec."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Specs by role: `proxy` drafts, `teacher` annotates, `answer` answers, `scorer` scores."""
    limit: int | None = None
    draft: str = ""
    """The field of the row that holds a draft; "": the proxy drafts."""
    label: str = ""
    """The field that holds the label, of `rewrite` the claims; "": it is made."""
    theta: float = 0.5
    """The share of the right answers that a known draft exceeds (SlimPLM, equation 2)."""
    apart: bool = False
    """Whether each name of an answer counts as an answer of its own, as in SlimPLM's released labels."""
    balance: bool = False
    seed: int = 0
    measure: str = "strinc"
    """A filter (`FILTERS`), or `gold`: what annotators selected."""
    unit: str = "sentence"
    """What is kept or dropped: `sentence`, or `passage` (FILCO's PSG)."""
    top: int | None = 1
    """Most segments kept; None: all above the threshold."""
    threshold: float | None = None
    """None: the filter's own."""
    k: int = 5
    """Passages a question; of those that come with it, the gold ones first."""
    kb: str = ""
    """A knowledge base to search in their place."""
    retriever: str = "auto"


def match_ratio(draft: str, groups: Sequence[Sequence[str]]) -> float:
    """Return the share of right answers of which a name is found in a draft, 0 to 1 (SlimPLM, equation 2).

    A name is found if it is a substring of the draft, both normalised: it need not end where a word ends, which
    reproduces the authors' released labels.
    """
    said = normalize_answer(draft)
    found = [any(name and name in said for name in map(normalize_answer, group)) for group in groups]
    return sum(found) / len(found) if found else 0.0


def unmatched(groups: Sequence[Sequence[str]]) -> str:
    """Say why no draft can be matched with the right answers; "": it can."""
    if not groups:
        return "no short answer"
    yes_no = all(name.strip().lower() in ("yes", "no") for group in groups for name in group)
    return "a yes or no answer, of which a match ratio says nothing" if yes_no else ""
