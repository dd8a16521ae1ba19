"""A retrieval-necessity judge's replies and training labels (SlimPLM section 3.2).

`parse_judgement` reads a verdict; `known_label` labels a draft answer by its match with the gold
answers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Literal, get_args

from ragweave.errors import UsageError
from ragweave.tools.claims.values import reply_text
from ragweave.tools.text.normalize import normalize_answer

_CHOICE = re.compile(r"\(?\s?\btrue\s{0,3}(?:[/|]|or)\s{0,3}false\b\s?\)?", re.IGNORECASE)
_VERDICT = re.compile(
    r"(?<![A-Za-z])known[\s:=(<\[{*_`\"']{0,12}(true|false|yes|no)(?![A-Za-z])", re.IGNORECASE
)
_CUT = re.compile(r"(?<![A-Za-z])known\s?\(\s?(t(?:ru?)?|f(?:a(?:ls?)?)?)\s*$", re.IGNORECASE)
_CLAUSE = re.compile(r"[.,;:!?\n{}]|\b(?:but|so|thus|hence|therefore)\b", re.IGNORECASE)
_NEGATED = re.compile(
    r"\b(?:not|never|cannot|nor|neither|hardly|unable|(?:i|we) doubt)\b|n['’]t\b", re.IGNORECASE
)
_TAKEN_BACK = re.compile(
    r"\W{0,6}(?:is|are|was|seems?|(?:would|can|could) be)\s?(?:not\b|n['’]t\b|wrong\b|incorrect\b)",
    re.IGNORECASE,
)
_BEFORE = 200
_BARE = re.compile(r"[\W_]*(true|false)[\W_]*", re.IGNORECASE)


def parse_judgement(text: str) -> bool | None:
    """Return what the judge says: True (known), False (not known), None where it can't be read.

    It takes `<Known(True)>` (released models), `Known (False)` (paper), the same with other
    brackets, quotes, markdown or prose around, JSON, a verdict that the reply's end cuts short,
    and the bare word. Verdicts that contradict each other are None, and so is an echo of
    "Known (True / False)". A negated verdict ("I can't say it is Known(True)") says nothing.
    """
    plain = _CHOICE.sub(" ", reply_text(text))
    if bare := _BARE.fullmatch(plain):
        return bare[1].lower() == "true"
    found = {
        match[1].lower() in ("true", "yes")
        for match in _VERDICT.finditer(plain)
        if not _negated(plain, match)
    }
    cut = _CUT.search(plain)
    if not found and cut and not _negated(plain, cut):
        return cut[1].lower().startswith("t")
    return found.pop() if len(found) == 1 else None


def _negated(text: str, verdict: re.Match[str]) -> bool:
    """Does the clause before a verdict deny it, or what follows take it back?"""
    before = _CLAUSE.split(text[max(0, verdict.start() - _BEFORE) : verdict.start()])[-1]
    behind = text[verdict.end() : verdict.end() + 40]
    return bool(_NEGATED.search(before) or _TAKEN_BACK.match(behind))


Name = str | int | float
"""An answer as text; data sets also write years and counts as numbers."""
Gold = Name | Sequence[Name] | Sequence[Sequence[Name]]
"""Gold short answers: one, or several; each a text, or the list of its aliases."""


RELEASED = "_without_search_answer"
"""How the fields of drafts end in SlimPLM's released files."""

Aliases = Literal["auto", "together", "apart"]
"""How names of one answer count.

* `together`: an answer is found if any of its names is.
* `apart`: each name is an answer of its own, as in the authors' labels.
* `auto`: as a row's own labels counted them, where it has some; else apart in rows of the authors'
  released files (they hold a draft of theirs), and together in others.
"""


def check_aliases(value: str) -> None:
    """Raise `UsageError` unless `value` is one of `Aliases`."""
    if value not in get_args(Aliases):
        listed = ", ".join(get_args(Aliases))
        raise UsageError(f"--aliases must be one of {listed}, not {value!r}")


def made_from(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a row that `ragweave label` made says of its origin; empty of any other row."""
    source = row.get("source")
    known = isinstance(source, Mapping) and all(
        isinstance(source.get(name), str) for name in ("data", "row")
    )
    return source if isinstance(source, Mapping) and known else {}


def is_released(row: Mapping[str, Any]) -> bool:
    """Tell whether a row is of SlimPLM's released files, or was made from one."""
    draft = str(made_from(row).get("draft"))
    return draft.endswith(RELEASED) or any(str(name).endswith(RELEASED) for name in row)


def names_apart(row: Mapping[str, Any], aliases: str) -> bool:
    """Tell whether each name counts as an answer of its own in a row, by `Aliases`."""
    if aliases == "auto":
        counted = made_from(row).get("aliases")
        return counted == "apart" if counted else is_released(row)
    return aliases == "apart"


def gold_groups(value: Any) -> list[list[Any]]:
    """Return lists of names: of one name, of a list of names of one answer, or of such lists.

    Blank names and nulls are left out.
    """
    if value is None:
        return []
    if not isinstance(value, list):
        value = [value]
    if not any(isinstance(one, list) for one in value):
        value = [value]
    groups = [one if isinstance(one, list) else [one] for one in value]
    filled = [
        [name for name in group if name is not None and str(name).strip()] for group in groups
    ]
    return [group for group in filled if group]


def only_yes_or_no(gold: Sequence[Any]) -> bool:
    """Tell whether nothing but yes or no is gold: of such answers a match ratio says nothing."""
    names = [name for group in gold for name in (group if isinstance(group, list) else [group])]
    return bool(names) and all(str(name).strip().lower() in ("yes", "no") for name in names)


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

    Raises:
        UsageError: A gold answer is neither text nor number nor a list of such.
    """
    normal, lowered = normalize_answer(draft), draft.lower()
    wanted = [_aliases(answer) for answer in _parts(gold)]
    found = [any(_stands_in(alias, normal, lowered) for alias in aliases) for aliases in wanted]
    return sum(found) / len(found) if found else 0.0


def known_label(draft: str, gold: Gold, theta: float = 0.5) -> bool:
    """Return the judge's training label: known if the match ratio exceeds `theta`.

    Args:
        draft: The heuristic answer.
        gold: The gold answers, see `match_ratio`.
        theta: θ; 0.5 reproduces the authors' labels.

    Raises:
        UsageError: `theta` is not a number in [0, 1], or `gold` as in `match_ratio`.
    """
    check_theta(theta)
    return match_ratio(draft, gold) > theta


def check_theta(theta: float) -> None:
    """Raise `UsageError` unless θ is a number between 0 and 1."""
    if not isinstance(theta, Real) or isinstance(theta, bool) or not 0 <= theta <= 1:
        raise UsageError(f"theta must be a number between 0 and 1, not {theta!r}")


def _parts(value: object) -> Sequence[object]:
    """Return the members of a list; anything else is one of its own."""
    return value if isinstance(value, Sequence) and not isinstance(value, str) else [value]


def _aliases(answer: object) -> list[str]:
    """Return the names of one answer, as texts."""
    return [_name(one) for one in _parts(answer)]


def _name(one: object) -> str:
    if isinstance(one, str):
        return one
    if isinstance(one, Real) and not isinstance(one, bool):
        return str(one)
    raise UsageError(f"a gold answer must be a string or a number, not {one!r}")


def _stands_in(alias: str, normal: str, lowered: str) -> bool:
    """Is one name found in the draft, given normalised and merely lower-cased?"""
    wanted = normalize_answer(alias)
    if wanted:
        return wanted in normal
    return bool(alias.strip()) and alias.strip().lower() in lowered
