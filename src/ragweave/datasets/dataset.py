"""Opening a data set by its spec.

* `hotpotqa:dev.json`: a named data set (`DATASETS`), in any of the formats it is published in;
  `?subset=blendfilter` or `?random=500&seed=1` selects questions of it (`subsets`), and
  `?split=train` one split of a file that holds several (ASQA's).
* `dev.json`: a path alone; the fields of the first row show the format, and those of the first
  1,000 whether plain rows have passages.
* `jsonl:my.jsonl?question=q&answers=gold&id=key&passages=docs`: plain JSON lines, a JSON array or
  CSV (`plain`).
* `hf:nq_open?split=validation`: a data set of the Hugging Face hub, by its name there (`hub`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from langchain_core.documents import Document

from ragweave.datasets.beir import BEIR
from ragweave.datasets.claims import FEVER, FOOL_ME_TWICE, KILT, KILT_CLAIMS, KILT_LONG, KILT_SHORT
from ragweave.datasets.hub import PAPERS_NAMES, SPLIT, hub_form, hub_path, hub_rows
from ragweave.datasets.long_form import ASQA, CLAPNQ, ELI5
from ragweave.datasets.open_qa import DPR, NQ_OPEN, POPQA, TRIVIAQA, WEBQUESTIONS
from ragweave.datasets.paragraph_qa import HOTPOTQA, MUSIQUE, QED, SKR, SQUAD, STRATEGYQA
from ragweave.datasets.plain import PLAIN, SAMPLED, plain
from ragweave.datasets.question import Format, Question
from ragweave.datasets.recorded import RECORDED
from ragweave.datasets.rows import NO_GOLD, Row, Rows, file_hash
from ragweave.datasets.subsets import NAMES, Selection, selection
from ragweave.errors import UsageError
from ragweave.registry import Registry
from ragweave.state import unique

_OURS = (
    HOTPOTQA,
    MUSIQUE,
    STRATEGYQA,
    SQUAD,
    ASQA,
    TRIVIAQA,
    WEBQUESTIONS,
    POPQA,
    FOOL_ME_TWICE,
    FEVER,
    QED,
    SKR,
    CLAPNQ,
    ELI5,
    RECORDED,
    DPR,
    NQ_OPEN,
    KILT,
    KILT_SHORT,
    KILT_LONG,
    KILT_CLAIMS,
    BEIR,
)

FORMATS: Registry[Format] = Registry("ragweave.datasets", Format, "data set format", lambda: _OURS)
"""Every format by name, in the order in which formats are tried for a file whose data set is not
named: ours, then those of other packages (entry points `ragweave.datasets`)."""


class DataSets(Mapping[str, tuple[Format, ...]]):
    """The data sets by name, each with the formats it is published in, in the order of `FORMATS`.

    Formats of other packages are loaded when a name is not one of ours, or when all are listed.
    """

    def __getitem__(self, name: str) -> tuple[Format, ...]:
        """Return the formats of a data set.

        Raises:
            KeyError: There is no such data set.
        """
        found = tuple(one for one in FORMATS.ours() if name in one.names)
        found = found or tuple(one for one in FORMATS.values() if name in one.names)
        if not found:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        yield from dict.fromkeys(name for one in FORMATS.values() for name in one.names)

    def __len__(self) -> int:
        """Return how many there are."""
        return sum(1 for _ in self)


DATASETS: Mapping[str, tuple[Format, ...]] = DataSets()
"""The names that may precede the colon of `name:path`, each with its formats."""


def sniffed_formats() -> tuple[Format, ...]:
    """Return the formats that are tried, in order, for rows whose data set is not named."""
    return tuple(one for one in FORMATS.values() if one.sniffed)


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Questions of one file or folder; each iteration reads them again, one at a time."""

    name: str
    """The name given in the spec, or that of the format found."""
    path: Path
    form: Format
    settings: dict[str, str] = field(default_factory=dict)
    """What followed the `?` of a hub data set's spec."""
    selection: Selection | None = None
    """Which of the file's questions are asked; None: all."""

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in file order.

        Raises:
            UsageError: A row is bad (the text names file and line), two questions have one id, or
                the file does not hold the questions that are selected.
        """
        yield from self._read() if self.selection is None else self.selection.of(self._read)

    def _read(self) -> Iterator[Question]:
        seen: set[int] = set()
        for row in self.rows():
            for question in self.form.read(row):
                digest = hash(question.id)
                if digest in seen:
                    raise row.error(f"the id {question.id!r} appears twice")
                seen.add(digest)
                if not question.answers and question.answerable and question.scoring == "short":
                    raise row.error(NO_GOLD)
                yield question

    @cached_property
    def size(self) -> int:
        """The number of questions; reads the file through once."""
        return sum(1 for _ in self)

    @cached_property
    def hash(self) -> str:
        """The SHA-256 of the file (of all files of a folder), in hex; of the hub, the name."""
        return str(self.path) if self._on_hub else file_hash(self.path)

    def corpus(self) -> list[Document]:
        """Return all passages of the file, each once, in file order, without gold marks.

        Which passage is gold depends on the question, and many questions share a corpus.
        """
        if self.form.corpus is not None:
            return list(self.form.corpus(self.path))
        passages = chain.from_iterable(question.passages for question in self._read())
        return unique(_unmarked(doc) for doc in passages)

    def sample(self, size: int, seed: int, among: Sequence[int] | None = None) -> frozenset[int]:
        """Return the indices of a random sample without replacement, the same for the same seed.

        Args:
            size: How many; all where there are fewer.
            seed: The seed.
            among: The indices to draw from; None: all.
        """
        population = range(self.size) if among is None else among
        return frozenset(random.Random(seed).sample(population, min(size, len(population))))

    @property
    def _on_hub(self) -> bool:
        return str(self.path).startswith("hf:")

    def rows(self) -> Rows:
        """Yield the file's rows, not yet read into questions."""
        if self._on_hub:
            return hub_rows(str(self.path)[3:], self.settings)
        return self.form.rows(self.path)


def source_of(spec: str, digest: str) -> str:
    """Return what tells where questions come from, whichever of them a spec selects.

    Args:
        spec: The data set's spec.
        digest: Its `Dataset.hash`, which of a hub data set is the name alone.
    """
    if not spec.startswith("hf:"):
        return digest
    settings = parse_spec(spec)[2]
    return f"{digest}, {settings.get('config', '')}, {settings.get('split', SPLIT)}"


def open_dataset(spec: str) -> Dataset:
    """Open a data set and check its first row.

    Args:
        spec: `hotpotqa:dev.json`, `dev.json` (the fields show the format),
            `jsonl:mine.jsonl?question=q&answers=gold`, `hf:nq_open?split=validation`.

    Raises:
        UsageError: The name, a setting or the format is unknown (the text says what was found and
            what was expected), or the file is missing, empty or cannot be read.
    """
    name, path, settings = parse_spec(spec)
    if name == "hf":
        return _of_hub(path, settings)
    if name in PLAIN:
        form = plain(name, settings)
        return _opened(name, Path(path), (form,), settings)
    if name and settings.keys() <= {SPLIT_NAME, *NAMES}:
        forms = forms_of(name, settings.pop(SPLIT_NAME, None))
        opened = _opened(name, Path(path), forms, {})
        return replace(opened, selection=selection(name, settings))
    if settings:
        raise UsageError(f"{spec!r}: field names after '?' only apply to jsonl: and csv: files")
    if Path(path).is_dir():
        return _opened("beir", Path(path), (BEIR,), settings)
    return _with_passages(_opened("", Path(path), file_formats(), settings))


SPLIT_NAME = "split"
"""What the spec of a data set may name of a file that holds several splits."""


def forms_of(name: str, split: str | None) -> tuple[Format, ...]:
    """Return the formats of a data set, or those of one split of its files.

    Raises:
        UsageError: There is no such split, or its files hold one each.
    """
    forms = DATASETS[name]
    if split is None:
        return forms
    found = tuple(one.of_split(split) for one in forms if one.of_split is not None)
    if not found:
        raise UsageError(f"{name}: each of its files holds one split: leave out split={split}")
    return found


def _of_hub(name: str, settings: dict[str, str]) -> Dataset:
    form = hub_form(name, settings, NAMES)
    forms = sniffed_formats() if form is None else (form,)
    opened = _opened("", hub_path(name), forms, settings, hub_rows(name, settings))
    named = {key: value for key, value in settings.items() if key in NAMES}
    if "subset" in named:
        opened = replace(opened, name=PAPERS_NAMES.get(name, opened.name))
    return replace(opened, selection=selection(opened.name, named))


def file_formats() -> tuple[Format, ...]:
    """Return the formats that are tried, in order, for a file whose data set is not named.

    NQ-open's takes any row with a question and answers, and would ignore the further fields of a
    plain row; so plain rows that have such fields are tried before it.
    """
    own = plain("jsonl", {})
    fuller = replace(own, fits=lambda fields: own.fits(fields) and _is_fuller(fields))
    return (*(one for one in sniffed_formats() if one is not NQ_OPEN), fuller, NQ_OPEN, own)


def _is_fuller(fields: Mapping[str, Any]) -> bool:
    return _has_passages(fields) or bool(fields.get("answer_type"))


def _has_passages(fields: Mapping[str, Any]) -> bool:
    """Return whether a row has passages as plain rows do; elsewhere they may be an object."""
    return isinstance(fields.get("passages"), list)


def _with_passages(opened: Dataset) -> Dataset:
    """Return a file that was taken for NQ-open as plain rows where one further down has passages."""
    if opened.form is not NQ_OPEN:
        return opened
    if not any(_has_passages(row.fields) for row in islice(opened.rows(), SAMPLED)):
        return opened
    own = plain("jsonl", {})
    return replace(opened, name=own.name, form=own)


def parse_spec(spec: str) -> tuple[str, str, dict[str, str]]:
    """Split a spec into name ("" where there is none), path and settings.

    Raises:
        UsageError: The name before the colon is unknown and no such file exists.
    """
    name, colon, rest = spec.partition(":")
    drive = len(name) == 1  # of an absolute path of Windows
    if not colon or (not _is_name(name) and (drive or Path(spec).exists())):
        return "", spec, {}
    if not _is_name(name):
        names = ", ".join((*DATASETS, *_OTHERS))
        raise UsageError(
            f"unknown data set {name!r}; name one of {names}, or give the path of a file"
        )
    path, _, query = rest.partition("?")
    if not path:
        raise UsageError(f"{spec!r}: name a file after the colon")
    return name, path, dict(parse_qsl(query, keep_blank_values=True))


_OTHERS = (*PLAIN, "hf")


def _is_name(name: str) -> bool:
    return name in _OTHERS or name in DATASETS


def _opened(
    name: str,
    path: Path,
    forms: tuple[Format, ...],
    settings: dict[str, str],
    rows: Rows | None = None,
) -> Dataset:
    if rows is None and not path.exists():
        raise UsageError(f"{path}: there is no such file")
    first = _first(path, forms, rows)
    found = next((form for form in forms if form.fits(first.fields)), None)
    if found is None:
        expected = "; or ".join(form.expects for form in forms[:4])
        more = f"; or one of {len(forms) - 4} other formats" if len(forms) > 4 else ""
        raise UsageError(
            f"{first.where}: found the fields {_names(first)}; "
            f"expected{f' for {name}' if name else ''} {expected}{more}"
        )
    if not name and rows is None:
        _check_unclaimed(path, found, first)
    dataset = Dataset(name=name or found.name, path=path, form=found, settings=settings)
    if found.settle is None:
        return dataset
    return replace(dataset, form=found.settle(dataset.rows()))


def _check_unclaimed(path: Path, found: Format, first: Row) -> None:
    """Refuse a file that names no format where a package's fits its plain rows too.

    Raises:
        UsageError: It does: it might leave out their passages, and nobody asked for it.
    """
    if found.name in FORMATS.others() and plain("jsonl", {}).fits(first.fields):
        raise UsageError(
            f"{path}: may be plain rows or {found.name} ({FORMATS.package(found.name)}): name it "
            f"jsonl:{path} or {found.names[0]}:{path}"
        )


def _first(path: Path, forms: tuple[Format, ...], rows: Rows | None) -> Row:
    """Return the first row; where several formats are tried, all are ordinary files."""
    listed = list(islice(rows if rows is not None else forms[-1].rows(path), 1))
    if not listed:
        raise UsageError(f"{path}: has no rows")
    return listed[0]


def _names(row: Row) -> str:
    names = [str(name) for name in row.fields]
    shown = ", ".join(names[:12]) or "none"
    return f"{shown}, …" if len(names) > 12 else shown


def _unmarked(doc: Document) -> Document:
    kept = {key: value for key, value in doc.metadata.items() if not key.startswith("gold")}
    return doc.model_copy(update={"metadata": kept})
