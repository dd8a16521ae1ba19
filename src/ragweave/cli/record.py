"""A run as plain JSON: its output, its steps with their prompts, replies and passages, its graph."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sized
from datetime import date
from pathlib import Path, PurePath
from typing import Any, NotRequired
from uuid import UUID

from langchain_core.documents import Document
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from ragweave.cli.watch import Asked, Searched, Visit, Watch
from ragweave.errors import UsageError
from ragweave.graphs.frame import DrawnGraph
from ragweave.state import Citation
from ragweave.state.passages import whole
from ragweave.tools.drawing import Edge, PathTaken, Shape, shape_of

START, END = "__start__", "__end__"


class StepRecord(TypedDict):
    """One run of one node."""

    node: str
    step: int
    """Which superstep it ran in, from 0: nodes of one superstep run side by side."""
    seconds: float
    calls: int
    input_tokens: int
    output_tokens: int
    found: str
    """Its result, in a few words."""
    asked: list[Asked]
    searched: list[Searched]
    passages: dict[str, list[dict[str, Any]]]
    """The passages that it wrote, by query or state key."""
    notes: list[dict[str, Any]]
    error: str


class EdgeRecord(TypedDict):
    """An edge of the graph."""

    source: str
    target: str
    label: str
    conditional: bool


class GraphRecord(TypedDict):
    """The graph that ran."""

    nodes: list[str]
    edges: list[EdgeRecord]


class RunRecord(TypedDict):
    """A recorded run; besides these keys it holds the graph's whole output."""

    method: str
    question: str
    answer: NotRequired[str]
    status: NotRequired[str]
    truncated: NotRequired[bool]
    passages: NotRequired[list[dict[str, Any]]]
    citations: NotRequired[list[Citation]]
    usage: NotRequired[dict[str, Any]]
    trace: list[StepRecord]
    notes: list[dict[str, Any]]
    graph: GraphRecord


class _StoredRecord(RunRecord):
    stopped: NotRequired[str]
    """What an earlier version wrote for `truncated`: `rounds`, or ""."""


def run_record(graph: DrawnGraph[Any], question: str, watch: Watch) -> dict[str, Any]:
    """Return the record of a run that `watch` has seen, even of one that failed midway."""
    shape = shape_of(graph.get_graph())
    return {
        "method": str(graph.get_name()),
        "question": question,
        **plain_output(watch.output),
        "trace": run_steps(watch),
        "notes": watch.notes,
        "graph": {
            "nodes": list(shape.nodes),
            "edges": [edge._asdict() for edge in shape.edges],
        },
    }


def run_steps(watch: Watch) -> list[StepRecord]:
    """Return the steps of a run, in order of their ends."""
    return [_step(visit) for visit in watch.all_visits]


def plain_output(output: Mapping[str, Any]) -> dict[str, Any]:
    """Return a graph's output with its passages as plain mappings."""
    made: dict[str, Any] = _plain_value(output)
    return made


def _plain_value(value: Any) -> Any:
    """Return a value with passages as plain mappings and numbers that JSON knows, at any depth."""
    if isinstance(value, Document):
        return _plain(value)
    if isinstance(value, Mapping):
        return {str(key): _plain_value(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_value(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON knows neither NaN nor infinity
    return value


def _named(value: object) -> str:
    """Return what stands in JSON for an object that has no form there: its kind, never its repr.

    A repr may hold paths and settings of this machine.
    """
    return str(value) if isinstance(value, PurePath | UUID | date) else type(value).__name__


def to_json(record: Mapping[str, Any]) -> str:
    """Write a record as JSON text; a number that JSON does not know (NaN, infinity) is null."""
    plain = _plain_value(record)
    return whole(json.dumps(plain, ensure_ascii=False, indent=2, default=_named, allow_nan=False))


def read_run(path: Path) -> RunRecord:
    """Read a recorded run.

    Raises:
        UsageError: There is no such file, or it does not hold a recorded run.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise UsageError(f"{path} cannot be read: {reason}") from error
    try:
        record = TypeAdapter(_StoredRecord).validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise _not_a_run(path, f"{where}: {first['msg']}") from error
    nodes = set(record["graph"]["nodes"])
    for edge in record["graph"]["edges"]:
        if not {edge["source"], edge["target"]} <= nodes:
            raise _not_a_run(path, f"an edge has no node: {edge['source']} → {edge['target']}")
    if "stopped" in record:
        record["truncated"] = bool(record.pop("stopped"))
    return record


def _not_a_run(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} is not a recorded run ({why}): make one with "
        f"`ragweave ask … --trace-file {path.name}`"
    )


def taken_of(record: RunRecord) -> tuple[Shape, PathTaken]:
    """Return the graph of a run and the path that it took.

    An edge counts as taken where its two nodes ran in consecutive supersteps.
    """
    edges = tuple(
        Edge(one["source"], one["target"], one["label"], one["conditional"])
        for one in record["graph"]["edges"]
    )
    steps: dict[int, set[str]] = {-1: {START}}
    times = {START: 1}
    for step in record["trace"]:
        steps.setdefault(step["step"], set()).add(step["node"])
        times[step["node"]] = times.get(step["node"], 0) + 1
    last = max(steps)
    if record.get("answer"):
        steps[last + 1] = {END}
        times[END] = 1
    pairs = {
        (edge.source, edge.target)
        for edge in edges
        for index, nodes in steps.items()
        if edge.source in nodes and edge.target in steps.get(index + 1, ())
    }
    return Shape(tuple(record["graph"]["nodes"]), edges), PathTaken(times, frozenset(pairs))


def _step(visit: Visit) -> StepRecord:
    given, made = visit.tokens
    return {
        "node": visit.node,
        "step": visit.step,
        "seconds": round(visit.seconds, 4),
        "calls": visit.calls,
        "input_tokens": given,
        "output_tokens": made,
        "found": _found(visit),
        "asked": visit.asked,
        "searched": visit.searched,
        "passages": _passages(visit.update),
        "notes": [dict(note) for note in visit.notes],
        "error": visit.error,
    }


def _found(visit: Visit) -> str:
    update = visit.update
    if update.get("answer"):
        return str(update["answer"])
    candidates = update.get("candidates")
    if isinstance(candidates, Mapping) and candidates:
        return "; ".join(one["answer"] for one in candidates.values())
    retrieved = update.get("retrieved")
    if isinstance(retrieved, Mapping) and retrieved:
        return ", ".join(f"{_count(docs)} for {key}" for key, docs in retrieved.items())
    return ""


def _count(docs: Sized) -> str:
    return "1 passage" if len(docs) == 1 else f"{len(docs)} passages"


def _passages(update: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    sets: dict[str, list[dict[str, Any]]] = {}
    for name in ("retrieved", "kept"):
        for key, docs in (update.get(name) or {}).items():
            sets[f"{name} for {key}"] = [_plain(doc) for doc in docs]
    if update.get("passages"):
        sets["passages"] = [_plain(doc) for doc in update["passages"]]
    return sets


def _plain(doc: Document) -> dict[str, Any]:
    return {"id": doc.id, "text": doc.page_content, "metadata": doc.metadata}
