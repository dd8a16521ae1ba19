"""A graph being wired: a state graph whose nodes may only write what its state has."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Self, cast, get_type_hints

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from langgraph.types import Command

from ragweave.errors import StateError


class Draft(StateGraph[Any, Any, Any, Any]):
    """A `StateGraph` that raises where a node returns a key that the state lacks.

    LangGraph itself drops such a key without a word. A subgraph as a node is left alone: its output
    schema says what it may write.
    """

    @property
    def fields(self) -> frozenset[str]:
        """The names of the state's fields; what a node's own schema adds to them is none."""
        return frozenset(get_type_hints(self.state_schema))

    def add_node(self, node: Any, action: Any = None, **settings: Any) -> Self:
        """Add a node, as `StateGraph.add_node` does; its updates are checked at run time."""
        before = set(self.nodes)
        super().add_node(node, action, **settings)
        for name in set(self.nodes) - before:
            spec = self.nodes[name]
            runnable = cast("Runnable[Any, Any]", spec.runnable)
            if not isinstance(runnable, Pregel):
                spec.runnable = CheckedNode(name, runnable, self.fields)
        return self


class CheckedNode(Runnable[Any, Any]):
    """A node that returns nothing but keys of its graph's state."""

    def __init__(self, name: str, node: Runnable[Any, Any], fields: Collection[str]) -> None:
        """Check `node`.

        Args:
            name: The node's name in the graph.
            node: The node.
            fields: The names of the state's fields.
        """
        self.name = name
        self._node = node
        self._fields = fields

    def invoke(self, input: Any, config: RunnableConfig | None = None, **more: Any) -> Any:  # noqa: A002
        """Run the node."""
        return self._checked(self._node.invoke(input, config, **more))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **more: Any) -> Any:  # noqa: A002
        """Run the node."""
        return self._checked(await self._node.ainvoke(input, config, **more))

    def _checked(self, result: Any) -> Any:
        for key in _keys(result):
            if key not in self._fields:
                raise StateError(
                    f"the node {self.name!r} returned the key {key!r}, and the graph's state has "
                    f"no such field{_closest(key, self._fields)}"
                )
        return result


def _keys(result: object) -> Iterator[str]:
    """Yield the keys of a node's update, or of several."""
    if isinstance(result, Command):
        if result.graph is None:
            yield from _keys(result.update)
    elif isinstance(result, Mapping):
        yield from result
    elif isinstance(result, list | tuple):
        for one in result:
            if isinstance(one, Command):
                yield from _keys(one)


def _closest(key: str, fields: Iterable[str]) -> str:
    close = difflib.get_close_matches(key, list(fields), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
