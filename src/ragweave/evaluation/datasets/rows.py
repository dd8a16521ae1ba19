"""Rows of a data set's file, one at a time, each knowing where it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ragweave.errors import UsageError


@dataclass(frozen=True, slots=True)
class Row:
    """One object of a file."""

    fields: Mapping[str, Any]
    where: str
    """`file:line`, or `file, record n` where the file is one JSON value."""
    number: int
    """Which row of the file it is, from 1."""

    def fault(self, what: str) -> UsageError:
        """Return the error that says `what` is wrong with this row."""
        return UsageError(f"{self.where}: {what}")

    def text(self, *names: str) -> str:
        """Return the text of the first of these fields that is there.

        Raises:
            UsageError: None is there, or it is blank or no text.
        """
        value = self.value(*names)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str):
            raise self.fault(f"{names[0]!r} must be a text, not {type(value).__name__}")
        if not value.strip():
            raise self.fault(f"{names[0]!r} is empty")
        return value.strip()

    def value(self, *names: str) -> Any:
        """Return the first of these fields that is there.

        Raises:
            UsageError: None is there.
        """
        for name in names:
            if self.fields.get(name) is not None:
                return self.fields[name]
        wanted = " or ".join(map(repr, names))
        raise self.fault(f"no {wanted}; found: {', '.join(map(str, self.fields)) or 'nothing'}")

    def texts(self, *names: str) -> tuple[str, ...]:
        """Return the texts of a field that holds one text or a list, blanks and repeats dropped.

        Raises:
            UsageError: The field is missing, holds anything else, or nothing is left.
        """
        value = self.value(*names)
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list | tuple):
            raise self.fault(f"{names[0]!r} must be a list of texts, not {type(value).__name__}")
        kept = tuple(dict.fromkeys(str(one).strip() for one in listed if str(one).strip()))
        if not kept:
            raise self.fault(f"gold is missing: {names[0]!r} is empty")
        return kept

    def items(self, *names: str) -> list[Row]:
        """Return the objects of a list field as rows that know where they stand.

        Raises:
            UsageError: The field is missing or is no list of objects.
        """
        value = self.value(*names)
        if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
            raise self.fault(f"{names[0]!r} must be a list of objects")
        return [
            Row(one, f"{self.where}, {names[0]} {at}", at) for at, one in enumerate(value, start=1)
        ]

    def id(self, *names: str) -> str:
        """Return the row's id, or its number where the file gives none."""
        for name in names:
            value = self.fields.get(name)
            if isinstance(value, str | int) and str(value).strip():
                return str(value).strip()
        return str(self.number)


def only(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return those of the named fields that are there, for `Question.about`."""
    return {name: fields[name] for name in names if fields.get(name) is not None}


Rows = Iterator[Row]
