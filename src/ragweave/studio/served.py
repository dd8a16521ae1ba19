"""What a remote caller may choose: a question and a method's settings, no file and no model."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig

from ragweave.errors import UsageError
from ragweave.graphs import CompiledGraph
from ragweave.graphs.method import Method
from ragweave.studio.settings import PREFIX, Sources, studio_options

INPUT = ("question",)
"""The fields of the state that a run's input may set."""
OPERATOR = frozenset(
    {"training", "embedding"} | {field.name for field in dataclasses.fields(Sources)} - {"search"}
)
"""Settings that open files or models: only the environment of the server sets them."""


class ServedGraph(CompiledGraph):
    """A graph as it is served: its schemas show only what a remote caller may choose.

    What he may not choose is refused where he gives it, rather than left out in silence.
    """

    def get_input_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """Return the schema of the input: the question."""
        return _only(super().get_input_jsonschema(config), lambda name: name in INPUT)

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """Return the schema of a run's settings, without those of the operator."""
        schema = super().get_context_jsonschema()
        return schema and _only(schema, lambda name: name not in OPERATOR)

    def stream(
        self,
        input: Any,  # noqa: A002 - LangGraph's signature
        config: RunnableConfig | None = None,
        **more: Any,
    ) -> Iterator[Any]:
        """Check what the caller chooses, then run."""
        _check_run(input, config)
        return super().stream(input, config, **more)

    def astream(
        self,
        input: Any,  # noqa: A002 - LangGraph's signature
        config: RunnableConfig | None = None,
        **more: Any,
    ) -> AsyncIterator[Any]:
        """Check what the caller chooses, then run."""
        _check_run(input, config)
        return super().astream(input, config, **more)


def served(graph: CompiledGraph) -> ServedGraph:
    """Return `graph` for remote callers."""
    return ServedGraph(**vars(graph))


def check_context(method: Method, given: object) -> None:
    """Refuse a run's settings that only the operator may choose.

    The values that the operator set are let through: a form sends back all that it shows.

    Raises:
        UsageError: A setting opens a file or a model.
    """
    if dataclasses.is_dataclass(given) and not isinstance(given, type):
        given = {field.name: getattr(given, field.name) for field in dataclasses.fields(given)}
    if not isinstance(given, Mapping):
        return
    own = studio_options(method)
    for name in sorted(OPERATOR.intersection(given)):
        if given[name] != getattr(own, name, None):
            raise _refusal(name)


def _check_run(given: object, config: RunnableConfig | None) -> None:
    """Refuse fields of the input and of `configurable` that a caller may not choose."""
    configurable = (config or {}).get("configurable") or {}
    for name in sorted(OPERATOR.intersection(configurable)):
        raise _refusal(name)
    if not isinstance(given, Mapping):
        return
    for name in sorted(set(given) - set(INPUT)):
        if name in OPERATOR:
            raise _refusal(name)
        raise UsageError(f"a run's input is its question; {name!r} cannot be given here")


def _refusal(name: str) -> UsageError:
    return UsageError(
        f"{name} cannot be chosen by a run: the operator of this server sets it "
        f"({PREFIX}{name.upper()})"
    )


def _only(schema: dict[str, Any], wanted: Any) -> dict[str, Any]:
    """Return an object's schema with the wanted properties, and the definitions that they use."""
    slim = {name: one for name, one in schema.get("properties", {}).items() if wanted(name)}
    required = [name for name in schema.get("required", []) if name in slim]
    made = {**schema, "properties": slim, "required": required, "additionalProperties": False}
    if "#/$defs/" not in repr(slim):
        made.pop("$defs", None)
    return made
