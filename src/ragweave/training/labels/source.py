"""Labelled questions to make training data from: any data set, mixed files and plain rows too.

Released training files hold rows of several data sets below each other, and rows that no data set
format has (a question and a draft, no gold): here each row is read by itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragweave.errors import UsageError
from ragweave.evaluation.datasets import DATASETS, Question
from ragweave.evaluation.datasets.dataset import PLAIN, parse_spec, sniffed
from ragweave.evaluation.datasets.files import file_hash, rows_of
from ragweave.evaluation.datasets.format import Format
from ragweave.evaluation.datasets.hub import hub_rows
from ragweave.evaluation.datasets.open_qa import NQ_OPEN
from ragweave.evaluation.datasets.plain import plain
from ragweave.evaluation.datasets.registry import nameless
from ragweave.evaluation.datasets.rows import Row, Rows

HUB_SPLIT = "validation"
"""The split that `hub_rows` reads where none is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A question of the source."""

    at: int
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
class Bad:
    """A row that cannot be labelled."""

    at: int
    data: str
    reason: str
    """In a few words, the same for all rows of this kind."""
    error: str
    """One line that names file and line."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """The questions of one file, read anew by each iteration."""

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
        return {"hub": self.hub, **config, "split": self.settings.get("split", HUB_SPLIT)}

    def read(self, *, gold: bool = True, limit: int | None = None) -> Iterator[Item | Bad]:
        """Yield the questions in file order.

        Args:
            gold: Whether gold answers are wanted; without, a question's text alone will do.
            limit: Read only the first so many.

        Raises:
            UsageError: The file cannot be read.
        """
        at = 0
        seen: set[bytes] = set()
        for row in self.rows():
            for one in self._row(row, at, gold=gold):
                if at == limit:
                    return
                yield self._once(one, seen)
                at += 1

    def _row(self, row: Row, at: int, *, gold: bool) -> Iterator[Item | Bad]:
        form = next((one for one in self.forms if one.fits(row.fields)), None)
        name = self.name or _name_of(form)
        if form is None:
            yield self._bare(row, at, name) or Bad(at, name, "no question", self._unread(row))
            return
        number = at
        try:
            for question in form.read(row):
                yield Item(
                    at=number,
                    id=question.id,
                    data=name,
                    text=question.question,
                    row=row,
                    question=question,
                )
                number += 1
        except UsageError as error:
            bare = None if gold or number > at else self._bare(row, at, name)
            reason = "no gold answers" if "gold is missing" in str(error) else "unreadable"
            yield bare or Bad(number, name, reason, str(error))

    def _bare(self, row: Row, at: int, name: str) -> Item | None:
        text = row.fields.get(self.settings.get("question", "question"))
        if not isinstance(text, str) or not text.strip():
            return None
        key = row.id(self.settings.get("id", "id"), "_id")
        return Item(at=at, id=key, data=name, text=text.strip(), row=row, question=None)

    def _unread(self, row: Row) -> str:
        found = ", ".join(map(str, row.fields)) or "nothing"
        return f"{row.where}: found the fields {found}; expected {self.forms[-1].expects}"

    @staticmethod
    def _once(one: Item | Bad, seen: set[bytes]) -> Item | Bad:
        """Refuse an id that came before."""
        if isinstance(one, Bad):
            return one
        mark = hashlib.blake2b(one.id.encode("utf-8", "replace"), digest_size=12).digest()
        if mark in seen:
            return Bad(one.at, one.data, "id twice", f"{one.row.where}: id {one.id!r} comes twice")
        seen.add(mark)
        return one


def _name_of(form: Format | None) -> str:
    """Return what rows of a format are called where the spec names no data set."""
    if form is None:
        return "other"
    return "plain" if form.name in (*PLAIN, NQ_OPEN.name) else form.name


def open_source(spec: str) -> Source:
    """Open a data set for labelling.

    Args:
        spec: As `open_dataset` takes it: `hotpotqa:dev.json`, `qa.jsonl`,
            `jsonl:qa.jsonl?question=q&answers=gold`, `hf:nq_open?split=train`.

    Raises:
        UsageError: The name is unknown, or the file is missing or empty.
    """
    name, path, settings = parse_spec(spec)
    if name == "hf":
        hub = Source(
            spec=spec,
            name="",
            forms=nameless(),
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
        form = plain(name, settings)
        return _opened(spec, "", (form,), lambda: rows_of(file), digest, settings)
    if settings:
        raise UsageError(f"{spec!r}: field names behind '?' are for jsonl: and csv: files")
    forms = DATASETS[name] if name else sniffed()
    reader = forms[-1] if not name else forms[0]
    first = next(iter(rows_of(file)), None) if not file.is_dir() else None
    if first is not None:  # a format that nests its questions (SQuAD, ASQA) has its own rows
        reader = next((one for one in forms if one.fits(first.fields)), reader)
    return _opened(spec, name, forms, lambda: reader.rows(file), digest, {})


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
        raise UsageError(f"{source.spec}: holds no rows")
    return source
