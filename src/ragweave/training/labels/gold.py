"""Gold short answers of a row, as SlimPLM's match ratio counts them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

from ragweave.errors import UsageError
from ragweave.training.labels.source import Item

Aliases = Literal["auto", "together", "apart"]
"""How names of one answer count.

* `together`: an answer is found if any of its names is.
* `apart`: each name is an answer of its own, as in the authors' labels.
* `auto`: apart in rows of the authors' released files (they hold a draft of theirs), else
  together.
"""

RELEASED = "_without_search_answer"
"""How the fields of drafts end in SlimPLM's released files."""

Gold = list[list[Any]] | list[Any]


def check_aliases(value: str) -> None:
    """Raise `UsageError` unless `value` is one of `Aliases`."""
    if value not in get_args(Aliases):
        listed = ", ".join(get_args(Aliases))
        raise UsageError(f"--aliases must be one of {listed}, not {value!r}")


def is_released(item: Item) -> bool:
    """Tell whether a row is one of SlimPLM's released files."""
    return any(str(name).endswith(RELEASED) for name in item.row.fields)


def short_gold(item: Item, aliases: str = "auto", field: str | None = None) -> Gold:
    """Return the gold short answers: lists of names, or where names count apart a flat list.

    Empty where the row has none: only long answers, or the question cannot be answered.

    Args:
        item: The question.
        aliases: How names count.
        field: The row's field that holds them; None: as the data set's format has them.

    Raises:
        UsageError: A gold answer is neither text nor number; the text names file and line.
    """
    released = is_released(item)
    groups = _of_field(item, field) if field or released else _of_question(item)
    apart = released if aliases == "auto" else aliases == "apart"
    _check(item, groups)
    return [name for group in groups for name in group] if apart else groups


def only_yes_or_no(gold: Gold) -> bool:
    """Tell whether nothing but yes or no is gold: of such answers a match ratio says nothing."""
    names = [name for group in gold for name in (group if isinstance(group, list) else [group])]
    return bool(names) and all(str(name).strip().lower() in ("yes", "no") for name in names)


def _of_field(item: Item, field: str | None) -> list[list[Any]]:
    """Read a field as it stands; SlimPLM's files have `short_answers` (ASQA) or `answer`."""
    fields = item.row.fields
    value = fields.get(field) if field else fields.get("short_answers") or fields.get("answer")
    return _groups(value)


def _of_question(item: Item) -> list[list[Any]]:
    question = item.question
    if question is None or not question.answerable:
        return []
    if question.answer_sets:
        return [list(one) for one in question.answer_sets]
    if question.scoring not in ("short", "accuracy"):
        return []
    for name in ("answers", "answer"):  # plain rows may hold lists of names
        value = item.row.fields.get(name)
        if isinstance(value, list) and any(isinstance(one, list) for one in value):
            return _groups(value)
    return [list(question.answers)]


def _groups(value: Any) -> list[list[Any]]:
    """Return lists of names: of one name, of a list of names of one answer, or of such lists."""
    if value is None:
        return []
    if not isinstance(value, list):
        value = [value]
    if not any(isinstance(one, list) for one in value):
        value = [value]
    groups = [one if isinstance(one, list) else [one] for one in value]
    filled = [[name for name in group if str(name).strip()] for group in groups]
    return [group for group in filled if group]


def _check(item: Item, groups: Sequence[Sequence[Any]]) -> None:
    for group in groups:
        for name in group:
            if isinstance(name, bool) or not isinstance(name, str | int | float):
                raise item.row.fault(f"a gold answer must be a text or a number, not {name!r}")
