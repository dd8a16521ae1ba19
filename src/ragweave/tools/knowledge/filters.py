"""Filters: which passages may be seen, by their metadata; one language for every knowledge base.

    {"year": {"$gte": 2020}, "dept": ["hr", "it"], "status": {"$ne": "draft"}}
    {"$or": [{"team": "core"}, {"$not": {"draft": true}}]}

The operators are those of LangChain's stores and Chroma: $eq, $ne, $in, $nin, $gt, $gte, $lt, $lte, $exists; $and,
$or, $not. A list stands for $in. Anything else is an error.

Values are compared by what they say, not by how a file spells it: 2024, 2024.0 and "2024" are one number, "2024-03-01"
and 2024-03-01T00:00Z one time, true and "True" one flag. v1.10, "1.10.0" and v1.10.0 are one version, after v1.9; "007"
and anything else is a text, compared by its first 200 characters. A list in the metadata matches by any of its items.
`folder` is any folder above the file, so {"folder": "/docs/hr"} is everything below it; files and folders may be named by
relative paths. $ne, $nin and $not are the opposite of the positive test: a passage without the field passes them. The
columns of a table are fields of its rows.

A filter is parsed into a condition: a tree of tests, whose operands have kinds. `matches` applies it to metadata, and
each store translates it for its own index of `stored_values`.
"""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from math import isfinite
from operator import ge, gt, le, lt
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from ragweave.errors import UsageError, did_you_mean
from ragweave.state.passages import HIDDEN, encodable

Kind = Literal["number", "time", "version", "flag", "text"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Key: TypeAlias = tuple[Kind, float | str]
"""A value as it is compared: a text, or a number; a time is its seconds since 1970, in UTC where it names no zone."""


@dataclass(frozen=True)
class Has:
    """A test of one field: it has one of some values (`=`), a value that compares to one (`>`), or any value (`?`).

    If `?` has keys, the value is of one of their kinds.
    """

    name: str
    op: Literal["=", ">", ">=", "<", "<=", "?"]
    keys: tuple[Key, ...] = ()


@dataclass(frozen=True)
class Every:
    """All of these pass."""

    of: tuple["Condition", ...]


@dataclass(frozen=True)
class Some:
    """At least one of these passes."""

    of: tuple["Condition", ...]


@dataclass(frozen=True)
class Not:
    """This does not pass."""

    of: "Condition"


class Field(NamedTuple):
    """A field of passages' metadata, as far as its values are of one kind."""

    name: str
    kind: Kind
    passages: int
    """Passages that have such a value."""
    values: int
    """Different values."""
    examples: list[Any]
    """The least and the greatest; of texts and flags the most frequent, up to five."""


Count: TypeAlias = tuple[str, Kind, float | str | None, int]
"""A field, a kind, a value, and how many passages have it; with None, how many have any of that kind."""
Condition: TypeAlias = Has | Every | Some | Not
"""A parsed filter; hashable, so that what it selects can be cached by it."""
Filter: TypeAlias = Mapping[str, Any] | Condition | None
"""What a caller writes, parsed or not; None and {}: all passages."""
ALL = Every(())
COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {">": gt, ">=": ge, "<": lt, "<=": le}
PLACES = ("source", "folder")
"""Fields of every passage, which are always texts."""
INTERNAL = (*PLACES, "position", "start", "end", "breaks", "cells", "table")
"""Fields that are not listed."""
_RANGES: Mapping[str, Any] = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_OPERATORS = ("$eq", "$ne", "$in", "$nin", *_RANGES, "$exists", "$not")
_JOINS = ("$and", "$or", "$not")
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?", re.ASCII)
_DIGITS = 15
"""Digits of a number that a float holds exactly: longer ones are texts, such as the numbers of accounts."""
_VERSION = re.compile(r"(v?)(\d{1,5})(?:\.(\d{1,5}))?(?:\.(\d{1,5}))?", re.ASCII)
_MAX_TEXT = 200
"""Characters by which texts are compared, so that an index need not hold long ones."""
_PART = 100_000
"""Numbers that a part of a version may have."""
_TIME = re.compile(r"[12]\d{3}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII)


def key_of(value: Any) -> Key:
    """Return a value as it is compared."""
    if isinstance(value, bool):
        return "flag", float(value)
    if isinstance(value, float) and isfinite(value):
        return "number", value
    if isinstance(value, date):
        moment = value if isinstance(value, datetime) else datetime.combine(value, time())
        return "time", (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    text = str(value)
    if _NUMBER.fullmatch(text) and sum(map(str.isdigit, text)) <= _DIGITS:
        return "number", float(text)
    if text.lower() in ("true", "false"):
        return "flag", float(text.lower() == "true")
    if (version := _version(text)) is not None:
        return "version", version
    written = _moment(text)
    return ("text", encodable(text)[:_MAX_TEXT]) if written is None else key_of(written)


def _moment(text: str) -> datetime | None:
    with suppress(ValueError):  # 2024-02-31
        if _TIME.fullmatch(text):
            return datetime.fromisoformat(text)
    return None


def _version(text: str) -> float | None:
    """Return a version as a number that grows with it; None if the text is none."""
    parts = _VERSION.fullmatch(text)
    if parts is None or not (parts[1] or parts[4]):
        return None
    major, minor, patch = (int(part or 0) for part in parts.groups()[1:])
    return float((major * _PART + minor) * _PART + patch)


def keys_of(value: Any) -> set[Key]:
    """Return the values of a field, each as it is compared; a text such as 1.10 is a number and a version."""
    items = (
        value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple | set) else [value]
    )
    keys = {key_of(item) for item in items if item is not None}
    short = (_version(f"v{item}") for item in items if isinstance(item, str) and "." in item)
    return keys | {("version", version) for version in short if version is not None}


def shown(key: Key) -> Any:
    """Return the value of a key, as `key_of` reads it."""
    kind, value = key
    if isinstance(value, str):
        return value
    if kind == "time":
        moment = datetime.fromtimestamp(value, UTC)
        return moment.date().isoformat() if moment.time() == time() else moment.isoformat()
    if kind == "version":
        major, rest = divmod(int(value), _PART**2)
        return f"v{major}.{rest // _PART}.{rest % _PART}"
    return bool(value) if kind == "flag" else int(value) if value.is_integer() else value


def parse(given: Filter) -> Condition:
    """Return the condition of a filter.

    Raises:
        UsageError: An operator is unknown, or its operand is of a type that it does not take.
    """
    if isinstance(given, Has | Every | Some | Not):
        return given
    if given is not None and not isinstance(given, Mapping):
        raise UsageError(f"a filter is a mapping such as {{'year': 2024}}, not {given!r}")
    parts = tuple(_parsed(name, value) for name, value in (given or {}).items())
    return parts[0] if len(parts) == 1 else Every(parts)


def _parsed(name: Any, value: Any) -> Condition:
    if name == "$not":
        return Not(parse(_filter(name, value)))
    if name in _JOINS:
        if not isinstance(value, list | tuple) or not value:
            raise UsageError(f"a filter's {name} takes a list of filters, not {value!r}")
        parts = tuple(parse(_filter(name, part)) for part in value)
        return Every(parts) if name == "$and" else Some(parts)
    if not isinstance(name, str) or name.startswith("$"):
        raise UsageError(f"a filter has no operator {name!r} here: {did_you_mean(str(name), _JOINS)}")
    if not isinstance(value, Mapping):
        return _tested(name, "$in" if isinstance(value, list | tuple | set) else "$eq", value)
    if not value:
        raise UsageError(f"a filter's field {name!r} has no operator: give one of {', '.join(_OPERATORS)}")
    parts = tuple(_tested(name, op, operand) for op, operand in value.items())
    return parts[0] if len(parts) == 1 else Every(parts)


def _tested(name: str, op: Any, value: Any) -> Condition:
    if op == "$not":
        return Not(_parsed(name, _filter(op, value)))
    if op == "$exists":
        if not isinstance(value, bool):
            raise UsageError(f"{name}: $exists takes true or false, not {value!r}")
        return Has(name, "?") if value else Not(Has(name, "?"))
    if op in ("$eq", "$ne", "$in", "$nin"):
        if op in ("$in", "$nin") and not isinstance(value, list | tuple | set):
            raise UsageError(f"{name}: {op} takes a list, not {value!r}")
        items = value if op in ("$in", "$nin") else [value]
        test = Has(name, "=", tuple(sorted({key for item in items for key in _operands(name, op, item)})))
        return test if op in ("$eq", "$in") else Not(test)
    if op in _RANGES:
        keys = _operands(name, op, value)
        if keys[0][0] not in ("number", "time", "version"):
            raise UsageError(f"{name}: {op} compares numbers, dates (2024-01-31) and versions (v1.10), not {value!r}")
        return Has(name, _RANGES[op], keys)
    raise UsageError(f"{name}: a filter has no operator {op!r}: {did_you_mean(str(op), _OPERATORS)}")


def _filter(op: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not value:
        raise UsageError(f"a filter's {op} takes a filter, not {value!r}")
    return value


def _operands(name: str, op: str, value: Any) -> tuple[Key, ...]:
    """Return an operand as it is compared; a file or folder also by its absolute path, by which files are indexed."""
    if value is None or isinstance(value, Mapping | list | tuple | set):
        raise UsageError(f"{name}: {op} takes a text, a number, a date or a flag, not {value!r}")
    if name not in PLACES:
        return (key_of(value),)
    if not (place := str(value)):
        raise UsageError(f"{name}: {op} takes a path or an address, not {value!r}")
    if name == "folder":
        place = place.rstrip("/\\") or place
    return ("text", place), ("text", os.path.abspath(place))  # noqa: PTH100 - as indexed


def matches(condition: Condition, metadata: Mapping[str, Any]) -> bool:
    """Return whether a passage with this metadata passes."""
    if isinstance(condition, Every):
        return all(matches(part, metadata) for part in condition.of)
    if isinstance(condition, Some):
        return any(matches(part, metadata) for part in condition.of)
    if isinstance(condition, Not):
        return not matches(condition.of, metadata)
    own = _values(condition.name, metadata)
    if condition.op == "?":
        return bool(own) and (not condition.keys or not {key[0] for key in own}.isdisjoint(dict(condition.keys)))
    if condition.op == "=":
        return not own.isdisjoint(condition.keys)
    ((kind, operand),) = condition.keys
    return any(kind == key[0] and COMPARE[condition.op](key[1], operand) for key in own)


def _values(name: str, metadata: Mapping[str, Any]) -> set[Key]:
    if name == "folder":
        return {("text", folder) for folder in folders(str(metadata.get("source", "")))}
    if name == "source":
        return {("text", str(metadata[name]))} if metadata.get(name) else set()
    return keys_of(metadata.get(name))


def folders(source: str) -> list[str]:
    """Return the folders above a file, or the addresses above a page.

    Examples:
        >>> folders("/docs/hr/a.md")
        ['/docs', '/docs/hr']
    """
    return [source[: end.start()] for end in re.finditer(r"(?<=[^/\\])[/\\]", source)]


def stored_values(metadata: Mapping[str, Any]) -> dict[str, dict[Kind, list[float | str]]]:
    """Return what a store indexes of a passage's metadata: the values of each field by their kinds.

    Examples:
        >>> stored_values({"year": "2024", "dept": ["hr", "it"]})
        {'year': {'number': [2024.0]}, 'dept': {'text': ['hr', 'it']}}
    """
    stored: dict[str, dict[Kind, list[float | str]]] = {}
    for name in ("folder", *(name for name in metadata if name not in HIDDEN)):
        for kind, value in sorted(_values(name, metadata), key=str):
            stored.setdefault(name, {}).setdefault(kind, []).append(value)
    return stored


def counted(passages: Iterable[Mapping[str, Any]]) -> Iterator[Count]:
    """Yield the values that some passages have, given their metadata."""
    for metadata in passages:
        for name, kinds in stored_values(metadata).items():
            for kind, items in kinds.items():
                yield from ((name, kind, value, 1) for value in (None, *items))


def fields_in(counts: Iterable[Count]) -> list[Field]:
    """Return the fields of passages with these values, by name."""
    values: dict[tuple[str, Kind], Counter[float | str]] = defaultdict(Counter)
    passages: Counter[tuple[str, Kind]] = Counter()
    for name, kind, value, count in counts:
        if value is None:
            passages[name, kind] += count
        elif name not in INTERNAL:
            values[name, kind][value] += count
    fields = []
    for (name, kind), own in sorted(values.items(), key=lambda item: (item[0][0], -passages[item[0]], item[0][1])):
        often = sorted(own, key=lambda value: (-own[value], value))[:5]
        ends = often if kind in ("text", "flag") else sorted({min(own), max(own)})
        fields.append(Field(name, kind, passages[name, kind], len(own), [shown((kind, value)) for value in ends]))
    return fields


def tests_of(condition: Condition) -> Iterator[Has]:
    """Yield the tests of a condition."""
    if isinstance(condition, Has):
        yield condition
    else:
        for part in condition.of if isinstance(condition, Every | Some) else (condition.of,):
            yield from tests_of(part)
