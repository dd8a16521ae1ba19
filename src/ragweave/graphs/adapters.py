"""A compiled method in a LangChain app: a tool of an agent, or a retriever of a chain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.exceptions import ContextOverflowError
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import (
    DEFAULT_RECURSION_LIMIT,
    ensure_config,
    patch_config,
    var_child_runnable_config,
)
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel, Field

from ragweave.errors import PromptTooLongError, UsageError
from ragweave.nodes.options import Options
from ragweave.state.passages import heading_of
from ragweave.tools.bindings import bound_settings, unbound
from ragweave.tools.text.untrusted import one_line


class Question(BaseModel):
    """What an agent gives the tool."""

    question: str = Field(description="The question to answer from the knowledge base.")


def tool_of(graph: Runnable[Any, Any], name: str, description: str) -> BaseTool:
    """Return a tool that answers a question by `graph`.

    The agent reads the answer and its sources; the graph's whole output is the artifact. A question
    that is blank, or too long for the model, comes back to the agent as the tool's error text and
    ends nothing.

    Args:
        graph: A compiled method.
        name: The tool's name, as the agent's model sees it.
        description: When to use it, as the agent's model sees it.
    """

    def run(question: str, config: RunnableConfig) -> tuple[str, dict[str, Any]]:
        with _telling_the_agent(), _own_steps(config) as given:
            output = graph.invoke({"question": question}, given, **_own_context(graph))
        return _content_and_artifact(output)

    async def arun(question: str, config: RunnableConfig) -> tuple[str, dict[str, Any]]:
        with _telling_the_agent(), _own_steps(config) as given:
            output = await graph.ainvoke({"question": question}, given, **_own_context(graph))
        return _content_and_artifact(output)

    return StructuredTool.from_function(
        run,
        arun,
        name=name,
        description=description,
        args_schema=Question,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


@contextmanager
def _telling_the_agent() -> Iterator[None]:
    """Raise what the agent can mend as the tool's error, which it reads."""
    try:
        yield
    except (PromptTooLongError, ContextOverflowError) as error:
        said = "the question is too long for the model: ask a shorter one"
        raise ToolException(said) from error
    except UsageError as error:
        raise ToolException(str(error)) from error


@contextmanager
def _own_steps(config: RunnableConfig) -> Iterator[RunnableConfig]:
    """Yield a run's configuration without the limit of 25 steps that LangChain fills in.

    Nobody asked for it, and a loop of more rounds would end by it. LangGraph takes what it is not
    given from the configuration around, where a tool or a chain has filled it in too. A limit that
    somebody set, an agent's, stands.
    """
    around = var_child_runnable_config.get()
    token = var_child_runnable_config.set(around and _without_default_limit(around))
    try:
        yield _without_default_limit(config)
    finally:
        var_child_runnable_config.reset(token)


def _without_default_limit(config: RunnableConfig) -> RunnableConfig:
    kept = {
        name: value
        for name, value in config.items()
        if name != "recursion_limit" or value != DEFAULT_RECURSION_LIMIT
    }
    return cast("RunnableConfig", kept)


def _own_context(graph: Runnable[Any, Any]) -> dict[str, Options]:
    """Return the context that runs a method as it was built, inside a run that has its own.

    LangGraph hands a run's context down to the graphs that its nodes call. A context that the
    method is bound to (`graph.bind(context=…)`) stands.
    """
    schema = getattr(getattr(unbound(graph), "builder", None), "context_schema", None)
    is_bound = any("context" in settings for settings in bound_settings(graph))
    if is_bound or not isinstance(schema, type) or not issubclass(schema, Options):
        return {}
    return {"context": schema()}


def _content_and_artifact(output: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    lines = [str(output["answer"])]
    places = [_place(doc) for doc in output["passages"]]
    if output["status"] == "answered" and places:
        lines += ["", "Sources:", *dict.fromkeys(places)]
    return "\n".join(lines), dict(output)


def _place(doc: Document) -> str:
    title, source = heading_of(doc.metadata), str(doc.metadata.get("source") or "")
    named = " — ".join(part for part in (one_line(title), one_line(source)) if part)
    return f"- {named or one_line(str(doc.id))}"


class GraphRetriever(BaseRetriever):
    """A retriever that returns the passages a method kept for the question.

    The method runs whole, its answer included: filters such as BlendFilter's and FILCO's are part
    of it. Documents carry `rank`, `query` and the method's other marks in `metadata`.
    """

    graph: Any
    """The compiled method."""

    def invoke(
        self,
        input: str,  # noqa: A002 - LangChain's signature
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Return the passages; `config` reaches the graph, its thread included."""
        return super().invoke(input, config, **kwargs, outer=ensure_config(config))

    async def ainvoke(
        self,
        input: str,  # noqa: A002 - LangChain's signature
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Return the passages; `config` reaches the graph, its thread included."""
        return await super().ainvoke(input, config, **kwargs, outer=ensure_config(config))

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        outer: RunnableConfig | None = None,
        **_: Any,
    ) -> list[Document]:
        config = patch_config(outer, callbacks=run_manager.get_child())
        with _own_steps(config) as given:
            output = self.graph.invoke({"question": query}, given, **_own_context(self.graph))
        return list(output["passages"])

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        outer: RunnableConfig | None = None,
        **_: Any,
    ) -> list[Document]:
        config = patch_config(outer, callbacks=run_manager.get_child())
        with _own_steps(config) as given:
            output = await self.graph.ainvoke(
                {"question": query}, given, **_own_context(self.graph)
            )
        return list(output["passages"])
