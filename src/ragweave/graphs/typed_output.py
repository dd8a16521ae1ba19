"""A compiled graph whose output type checkers know; LangGraph itself says `dict[str, Any] | Any`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar, overload

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph

OutputT = TypeVar("OutputT", bound=Mapping[str, Any])


class TypedGraph(CompiledStateGraph[Any, Any, Any, Any], Generic[OutputT]):
    """A compiled graph that returns `OutputT`, unless LangGraph's other settings ask for more."""

    @overload  # type: ignore[override]
    def invoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        context: Any = None,
    ) -> OutputT: ...

    @overload
    def invoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        **more: Any,
    ) -> Any: ...

    def invoke(self, input: Any, config: RunnableConfig | None = None, **more: Any) -> Any:  # noqa: A002
        """Run the graph and return its output."""
        return super().invoke(input, config, **more)

    @overload  # type: ignore[override]
    async def ainvoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        context: Any = None,
    ) -> OutputT: ...

    @overload
    async def ainvoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        **more: Any,
    ) -> Any: ...

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **more: Any) -> Any:  # noqa: A002
        """Run the graph and return its output."""
        return await super().ainvoke(input, config, **more)
