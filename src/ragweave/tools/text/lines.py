"""Lines that are units of their own: rows of tables, and fields of forms."""

import re
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_CELLS = re.compile(r"[ \t]*\||[^\n]*\S(?: \| |\t+)\S")
_FIELD = re.compile(r"[ \t]*[^\W_][^:.!?\n|]{0,58}:[ \t]+\S")
_RULE = re.compile(r"[\s|:+=-]+")
_END = re.compile(r"[.!?…。！？]\W*$")
_LONGEST_ROW = 30
"""Maximum number of words in a row of figures that no sign divides into cells."""
_FIGURES = 0.4
"""Least share of the words in such a row that have a digit."""


class Block(NamedTuple):
    """A part of a text, `text[start:end]`."""

    start: int
    end: int
    kind: str
    """`row` of a table, `field` of a form, or "" for prose."""
    header: tuple[int, int] | None = None
    """The first row of the row's table, if it names the columns."""


def blocks(text: str) -> Iterator[Block]:
    """Yield the rows of tables and the fields of forms in a text, and the prose between them, in order.

    A text of nothing but `name: value` lines is a record, such as a row of a spreadsheet, and stays in one piece.
    """
    lines = [(match.start(), match.end()) for match in _LINE.finditer(text)]
    kinds = [_kind(text[slice(*line)]) for line in lines]
    if {kind for kind, line in zip(kinds, lines, strict=True) if text[slice(*line)].strip()} == {"field"}:
        yield Block(0, len(text), "")
        return
    for kind, group in groupby(zip(_in_runs(text, lines, kinds), lines, strict=True), key=itemgetter(0)):
        run = [line for _, line in group]
        if not kind:
            yield Block(run[0][0], run[-1][1], "")
        elif kind == "field":
            yield from (Block(*line, kind) for line in run)
        else:
            yield from _table(text, run)


def _in_runs(text: str, lines: list[tuple[int, int]], kinds: list[str]) -> Iterator[str]:
    """Yield the kind of each line: one row or field alone may be part of a sentence, a line over figures names columns."""
    for at, (kind, line) in enumerate(zip(kinds, lines, strict=True)):
        after = kinds[at + 1 : at + 3]
        if not kind and after == ["figures", "figures"] and _names_columns(text[slice(*line)]):
            yield "figures"
        elif kind in (*after[:1], *kinds[max(at - 1, 0) : at]) or text[line[0] : line[1]].lstrip().startswith("|"):
            yield kind
        else:
            yield ""


def _table(text: str, rows: list[tuple[int, int]]) -> Iterator[Block]:
    first, *rest = rows
    ruled = bool(rest) and _RULE.fullmatch(text[slice(*rest[0])])
    header = first if ruled or not re.search(r"\d", text[slice(*first)]) else None
    yield Block(*first, "row")
    yield from (Block(*row, "row", header) for row in rest)


def _names_columns(line: str) -> bool:
    return 2 <= len(line.split()) <= _LONGEST_ROW and not _END.search(line)


def _kind(line: str) -> str:
    if _CELLS.match(line):
        return "cells"
    if _FIELD.match(line):
        return "field"
    words = line.split()
    figures = sum(any(map(str.isdigit, word)) for word in words)
    if 2 <= figures >= _FIGURES * len(words) and len(words) <= _LONGEST_ROW and not _END.search(line):
        return "figures"
    return ""
