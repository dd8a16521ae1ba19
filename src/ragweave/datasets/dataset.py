"""Opening a data set by its spec: a file as its authors publish it, the hub's rows, or FlashRAG's.

* `hotpotqa:dev.json`: a named data set (`FORMATS`).
* `dev.json`: a file alone; the fields of its first row tell the format.
* `jsonl:my.jsonl?question=q&answers=gold`: fields by other names.
* `hf:nq_open?split=validation&config=…&as=nq`: a data set of the Hugging Face hub.
* `langsmith:NAME?question=q&answers=gold`: a data set of LangSmith.
* `beir:FOLDER`: queries, documents and judgements.
* `…?subset=blendfilter`, `…?ids=FILE`: a paper's questions, or those listed in a file.

FlashRAG's rows (Jin et al. 2024) hold `golden_answers`, and the hub's fields under `metadata`; every format reads them.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from langchain_core.documents import Document

from ragweave.datasets import formats
from ragweave.datasets.question import Format, Question
from ragweave.datasets.rows import Row, hub_rows, langsmith_rows, read_rows
from ragweave.datasets.subsets import PaperSubset, chosen, subset_of
from ragweave.errors import UsageError, did_you_mean
from ragweave.registry import Registry
from ragweave.state.passages import content_id

FORMATS: Registry[Format] = Registry("ragweave.datasets", Format, "data set", lambda: formats.FORMATS)
"""Every format by name: ours, then those of other packages (entry points `ragweave.datasets`).

A file given without a name is tried in this order."""

_OWN_NAMES = {"question": formats.QUESTION, "answers": formats.ANSWERS, "passages": (), "id": (), "aliases": ()}
_SETTINGS = (*_OWN_NAMES, "split", "config", "as", "subset", "ids")
"""What may follow the `?`."""


@dataclass(frozen=True)
class Dataset:
    """The questions of a file, which each iteration reads again."""

    name: str
    """The format's name; "" if the first row tells it."""
    place: str
    """The file or folder."""
    rows: Callable[[], Iterator[Row]]
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Our field names by the file's."""
    subset: tuple[PaperSubset | None, frozenset[str] | None] = (None, None)
    """Which questions are asked: those of a paper, of listed ids, or all."""
    form: Format | None = None
    """Reads the rows instead of the format of that name."""
    keeps_fields: bool = False
    """Whether `Question.about` holds all fields of its row."""

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions; a repeated id gets the suffix `#2`."""
        seen: Counter[str] = Counter()
        for at, question in enumerate(chosen(self._read(), *self.subset)):
            name = question.id
            while name in seen:
                seen[question.id] += 1
                name = f"{question.id}#{seen[question.id]}"
            seen[name] = 1
            yield replace(question, id=name, at=at)

    def corpus(self) -> Iterator[Document]:
        """Yield every passage of the collection, or of all questions, once.

        The collection of `musique.json` is `musique_corpus.json` beside it, if that exists: rows with `title` and `text`,
        as HippoRAG publishes them.
        """
        corpus = FORMATS.named(self.name).corpus if self.name else None
        if corpus is not None:
            yield from corpus(Path(self.place))
            return
        seen: set[str] = set()
        beside = Path(f"{self.place.removesuffix('.json')}_corpus.json")
        passages = (question.passages for question in self)
        collection = [map(formats.read_passage, read_rows(beside))] if beside.exists() else passages
        for doc in chain.from_iterable(collection):
            if doc.id not in seen:
                seen.add(str(doc.id))
                yield doc

    def _read(self) -> Iterator[Question]:
        form = self.form or (FORMATS.named(self.name) if self.name else None)
        if form is not None and form.read_folder is not None:
            yield from form.read_folder(Path(self.place))
            return
        rows = map(self._known, self.rows())
        first = next(rows, None)
        if first is None:
            raise UsageError(f"{self.place}: holds no questions")
        form = form or format_of(first)
        for row in chain([first], rows):
            try:
                for question in form.read(row):
                    about = {**row.fields, **question.about} if self.keeps_fields else question.about
                    yield replace(question, id=question.id or content_id(question.question), about=about)
            except UsageError as error:
                raise _with_hint(error, row, self.place) from error

    def _known(self, row: Row) -> Row:
        """Return a row with its fields renamed and FlashRAG's `metadata` as fields."""
        for theirs, ours in self.renamed.items():
            if ours in ("question", "answers") and theirs not in row.fields:
                raise row.error(f"there is no field {theirs!r}; there are {', '.join(row.fields)}")
        taken = {*self.renamed.values()} - {*self.renamed}
        fields = {self.renamed.get(name, name): value for name, value in row.fields.items() if name not in taken}
        inner = fields.get("metadata")
        if "golden_answers" in fields and isinstance(inner, Mapping):
            fields = {**inner, **fields}
        return Row(fields, row.where, row.number)


def format_of(row: Row) -> Format:
    """Return the format that a row looks like; plain rows otherwise."""
    return next((form for form in FORMATS.values() if form.fits(row)), FORMATS["jsonl"])


def _with_hint(error: UsageError, row: Row, place: str) -> UsageError:
    """Add how to name the fields, if the row uses other names."""
    lacks = [ours for ours, theirs in _OWN_NAMES.items() if theirs and row.get(*theirs) is None]
    if not lacks or any(form.fits(row) for form in formats.FORMATS):
        return error
    shown = "&".join(f"{name}=FIELD" for name in lacks)
    return UsageError(f"{error}. Name the fields: jsonl:{place}?{shown}")


def open_dataset(spec: str, *, form: Format | None = None, keeps_fields: bool = False) -> Dataset:
    """Open a data set without reading it yet.

    Args:
        spec: Such as `hotpotqa:dev.json`.
        form: Reads the rows instead of the format that the spec or the first row names.
        keeps_fields: Whether `Question.about` holds all fields of its row.

    Raises:
        UsageError: There is no such data set, file, setting or subset.
    """
    head, _, query = spec.partition("?")
    settings: dict[str, Any] = dict(parse_qsl(query))
    for name in settings:
        if name not in _SETTINGS:
            raise UsageError(f"{spec}: no setting {name!r}: {did_you_mean(name, _SETTINGS)}")
    name, colon, place = head.partition(":")
    split, config, form_name = settings.pop("split", "validation"), settings.pop("config", None), settings.pop("as", "")
    if colon and name == "hf":
        known, rows = form_name, lambda: hub_rows(place, config, split)
    elif colon and name == "langsmith":
        known, rows = form_name, lambda: langsmith_rows(place)
    elif colon and name in FORMATS:
        known, rows = name, lambda: read_rows(Path(place))
    else:
        known, place, rows = form_name, head, lambda: read_rows(Path(head))
        if not Path(place).exists():
            raise UsageError(
                f"{place}: there is no such file. Give a file's path or NAME:FILE; the names are "
                f"{', '.join(FORMATS.names())}"
            )
    if known and FORMATS.named(known).read_folder and not Path(place).is_dir():
        raise UsageError(f"{place}: a {known} data set is a folder")
    subset = subset_of(known, settings.pop("subset", ""), settings.pop("ids", ""))
    renamed = {theirs: ours for ours, theirs in settings.items()}
    return Dataset(known, place, rows, renamed, subset, form, keeps_fields)


def select(
    questions: Iterable[Question],
    *,
    limit: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    shard: str = "",
) -> list[Question]:
    """Return the first `limit` questions, or `sample` of them drawn with `seed`.

    The shard `2/8` is every eighth of these, starting with the second.

    Raises:
        UsageError: The shard does not have this form.
    """
    chosen = list(islice(questions, limit))
    if sample is not None and sample < len(chosen):
        chosen = sorted(random.Random(seed).sample(chosen, sample), key=lambda question: question.at)
    if shard:
        part, _, of = shard.partition("/")
        if not (part.isdecimal() and of.isdecimal() and 1 <= int(part) <= int(of)):
            raise UsageError(f"a shard is I/N, such as 2/8, not {shard!r}")
        chosen = chosen[int(part) - 1 :: int(of)]
    return chosen
