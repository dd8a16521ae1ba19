"""The questions that training rows are made from, with their gold answers.

Any data set will do, mixed files and plain rows too: released training files hold rows of several
data sets one after the other, and rows of no data set's format (a question and a draft, no gold),
so each row is read by itself. Gold short answers are those that SlimPLM's match ratio counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ragweave.datasets import Question
from ragweave.datasets.dataset import (
    SPLIT_NAME,
    file_formats,
    forms_of,
    parse_spec,
    sniffed_formats,
)
from ragweave.datasets.hub import SPLIT, hub_form, hub_rows
from ragweave.datasets.open_qa import NQ_OPEN
from ragweave.datasets.plain import PLAIN, plain
from ragweave.datasets.question import Format
from ragweave.datasets.rows import NO_GOLD, Row, Rows, file_hash, rows_of
from ragweave.errors import UsageError
from ragweave.tools.claims import gold_groups, is_released, made_from, names_apart

_GROUPED = ("answers", "answer")
"""Fields in which plain rows may hold several answers, each a list of its names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A question of the source."""

    index: int
    """Its position among the source's questions, from 0."""
    id: str
    data: str
    """Name of the data set, or of the format that the row is in."""
    text: str
    """The question as asked."""
    row: Row
    """The row as it stands in the file."""
    question: Question | None
    """What the data set knows; None: the row has a question and nothing else that is known."""


@dataclass(frozen=True, slots=True)
class InvalidRow:
    """A row that cannot be labelled."""

    index: int
    data: str
    reason: str
    """In a few words, the same for all rows of this kind."""
    error: str
    """One line that names file and line."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """The questions of one file; each iteration reads them again."""

    spec: str
    name: str
    """The data set's name; "" where each row tells its own."""
    forms: tuple[Format, ...]
    rows: Callable[[], Rows]
    hash: str
    """SHA-256 of the file, in hex; "" for a data set of the hub, which is no file."""
    hub: str = ""
    """Name of a data set of the Hugging Face hub; "" for a file."""
    settings: Mapping[str, str]
    """What stood behind `?` of the spec."""

    @property
    def origin(self) -> dict[str, str]:
        """What rows say of where they came from: the file's `sha256`, or `hub` and split there."""
        if not self.hub:
            return {"sha256": self.hash}
        config = {"config": self.settings["config"]} if "config" in self.settings else {}
        return {"hub": self.hub, **config, "split": self.settings.get("split", SPLIT)}

    def read(self, *, gold: bool = True, limit: int | None = None) -> Iterator[Item | InvalidRow]:
        """Yield the questions in file order.

        Args:
            gold: Whether gold answers are wanted; without, a question's text alone will do.
            limit: Read only the first so many.

        Raises:
            UsageError: The file cannot be read.
        """
        index = 0
        seen: set[bytes] = set()
        for row in self.rows():
            for one in self._row(row, index, gold=gold):
                if index == limit:
                    return
                yield self._refuse_repeated_id(one, seen)
                index += 1

    def _row(self, row: Row, index: int, *, gold: bool) -> Iterator[Item | InvalidRow]:
        form = next((one for one in self.forms if one.fits(row.fields)), None)
        name = self.name or made_from(row.fields).get("data") or _name_of(form)
        if form is None:
            yield self._bare(row, index, name) or InvalidRow(
                index, name, "no question", self._unread(row)
            )
            return
        number = index
        try:
            for question in form.read(_ungrouped(row)):
                yield Item(
                    index=number,
                    id=question.id,
                    data=name,
                    text=question.question,
                    row=row,
                    question=question,
                )
                number += 1
        except UsageError as error:
            bare = None if gold or number > index else self._bare(row, index, name)
            reason = "no gold answers" if NO_GOLD in str(error) else "unreadable"
            yield bare or InvalidRow(number, name, reason, str(error))

    def _bare(self, row: Row, index: int, name: str) -> Item | None:
        text = row.fields.get(self.settings.get("question", "question"))
        if not isinstance(text, str) or not text.strip():
            return None
        key = row.id(self.settings.get("id", "id"), "_id")
        return Item(index=index, id=key, data=name, text=text.strip(), row=row, question=None)

    def _unread(self, row: Row) -> str:
        found = ", ".join(map(str, row.fields)) or "nothing"
        return f"{row.where}: found the fields {found}; expected {self.forms[-1].expects}"

    @staticmethod
    def _refuse_repeated_id(one: Item | InvalidRow, seen: set[bytes]) -> Item | InvalidRow:
        """Refuse an id that came before."""
        if isinstance(one, InvalidRow):
            return one
        mark = hashlib.blake2b(one.id.encode("utf-8", "replace"), digest_size=12).digest()
        if mark in seen:
            return InvalidRow(
                one.index, one.data, "id twice", f"{one.row.where}: the id {one.id!r} appears twice"
            )
        seen.add(mark)
        return one


def _ungrouped(row: Row) -> Row:
    """Return a row whose gold answers are a flat list; `short_gold` takes the lists of names."""
    flat = {
        name: [one for group in gold_groups(value) for one in group]
        for name in _GROUPED
        if _has_groups(value := row.fields.get(name))
    }
    return replace(row, fields={**row.fields, **flat}) if flat else row


def _has_groups(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(one, list) for one in value)


def _name_of(form: Format | None) -> str:
    """Return what rows of a format are called where the spec names no data set."""
    if form is None:
        return "other"
    return "plain" if form.name in (*PLAIN, NQ_OPEN.name) else form.name


def open_source(spec: str) -> Source:
    """Open a data set for labelling.

    Args:
        spec: As `open_dataset` takes it: `hotpotqa:dev.json`, `qa.jsonl`,
            `asqa:ASQA.json?split=train`, `jsonl:qa.jsonl?question=q&answers=gold`,
            `hf:nq_open?split=train`.

    Raises:
        UsageError: The name or a setting is unknown, the file is missing or empty, or it holds
            several splits and none is named.
    """
    name, path, settings = parse_spec(spec)
    if name == "hf":
        form = hub_form(path, settings)
        hub = Source(
            spec=spec,
            name="",
            forms=sniffed_formats()
            if form is None
            else (_settled(form, hub_rows(path, settings)),),
            rows=lambda: hub_rows(path, settings),
            hash="",
            hub=path,
            settings=settings,
        )
        return _holding_rows(hub)
    file = Path(path)
    if not file.exists():
        raise UsageError(f"{path}: there is no such file")
    if file.is_dir() and name != "beir":
        raise UsageError(f"{path}: is a folder; name a file of questions")
    digest = file_hash(file)
    if name in PLAIN:
        form = _settled(plain(name, settings), rows_of(file))
        return _opened(spec, "", (form,), lambda: rows_of(file), digest, settings)
    split = settings.pop(SPLIT_NAME, None) if name else None
    if settings:
        raise UsageError(f"{spec!r}: field names after '?' only apply to jsonl: and csv: files")
    forms = forms_of(name, split) if name else file_formats()
    reader = forms[-1] if not name else forms[0]
    first = next(iter(rows_of(file)), None) if not file.is_dir() else None
    if first is not None:  # a format that nests its questions (SQuAD, ASQA) has its own rows
        reader = next((one for one in forms if one.fits(first.fields)), reader)
        if split is None:
            _refuse_several_splits(reader, first, path)
    return _opened(spec, name, forms, lambda: reader.rows(file), digest, {})


def _refuse_several_splits(reader: Format, first: Row, path: str) -> None:
    """Refuse a file of several splits: training data of a dev set would go unnoticed."""
    held = reader.splits(first.fields) if reader.splits is not None else ()
    if len(held) > 1:
        named = "train" if "train" in held else held[0]
        raise UsageError(
            f"{path}: holds several splits ({', '.join(held)}): name the one to label, "
            f"{reader.name}:{path}?split={named}"
        )


def _settled(form: Format, rows: Rows) -> Format:
    return form if form.settle is None else form.settle(rows)


def _opened(
    spec: str,
    name: str,
    forms: tuple[Format, ...],
    rows: Callable[[], Rows],
    digest: str,
    settings: Mapping[str, Any],
) -> Source:
    return _holding_rows(
        Source(spec=spec, name=name, forms=forms, rows=rows, hash=digest, settings=settings)
    )


def _holding_rows(source: Source) -> Source:
    if next(iter(source.rows()), None) is None:
        raise UsageError(f"{source.spec}: has no rows")
    return source


Gold = list[list[Any]] | list[Any]


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
    fields = item.row.fields
    by_field = field or (is_released(fields) and not made_from(fields))
    groups = _of_field(item, field) if by_field else _of_question(item)
    _check(item, groups)
    if not names_apart(fields, aliases):
        return groups
    return [name for group in groups for name in group]


def _of_field(item: Item, field: str | None) -> list[list[Any]]:
    """Read a field as it stands; SlimPLM's files have `short_answers` (ASQA) or `answer`."""
    fields = item.row.fields
    value = fields.get(field) if field else fields.get("short_answers") or fields.get("answer")
    return gold_groups(value)


def _of_question(item: Item) -> list[list[Any]]:
    question = item.question
    if question is None or not question.answerable:
        return []
    if question.answer_sets:
        return [list(one) for one in question.answer_sets]
    if question.scoring not in ("short", "accuracy"):
        return []
    for name in _GROUPED:
        value = item.row.fields.get(name)
        if _has_groups(value):
            return gold_groups(value)
    return [list(question.answers)]


def _check(item: Item, groups: Sequence[Sequence[Any]]) -> None:
    for group in groups:
        for name in group:
            if isinstance(name, bool) or not isinstance(name, str | int | float):
                raise item.row.error(f"a gold answer must be a string or a number, not {name!r}")
