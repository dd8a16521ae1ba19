"""A method inside a LangChain app: as a tool of an agent, as a retriever of a chain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel, Field

from ragweave.errors import UsageError


class Question(BaseModel):
    """What an agent gives the tool."""

    question: str = Field(description="The question to answer from the knowledge base.")


def tool_of(graph: Runnable[Any, Any], name: str, description: str) -> BaseTool:
    """Return a tool that answers a question by `graph`.

    The agent reads the answer and its sources; the graph's whole output is the artifact. A blank
    question comes back to the agent as the tool's error text and ends nothing.

    Args:
        graph: A compiled method.
        name: The tool's name, as the agent's model sees it.
        description: When to use it, as the agent's model sees it.
    """

    def run(question: str, config: RunnableConfig) -> tuple[str, dict[str, Any]]:
        try:
            return _content_and_artifact(graph.invoke({"question": question}, config))
        except UsageError as error:
            raise ToolException(str(error)) from error

    async def arun(question: str, config: RunnableConfig) -> tuple[str, dict[str, Any]]:
        try:
            return _content_and_artifact(await graph.ainvoke({"question": question}, config))
        except UsageError as error:
            raise ToolException(str(error)) from error

    return StructuredTool.from_function(
        run,
        arun,
        name=name,
        description=description,
        args_schema=Question,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


def _content_and_artifact(output: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    lines = [str(output["answer"])]
    places = [_place(doc) for doc in output["passages"]]
    if output["status"] == "answered" and places:
        lines += ["", "Sources:", *dict.fromkeys(places)]
    return "\n".join(lines), dict(output)


def _place(doc: Document) -> str:
    title, source = (str(doc.metadata.get(key) or "") for key in ("title", "source"))
    return "- " + (" — ".join(part for part in (title, source) if part) or str(doc.id))


class GraphRetriever(BaseRetriever):
    """A retriever that returns the passages a method kept for the question.

    The method runs whole, its answer included: filters such as BlendFilter's and FILCO's are part
    of it. Documents carry `rank`, `query` and the method's other marks in `metadata`.
    """

    graph: Any
    """The compiled method."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        output = self.graph.invoke({"question": query}, {"callbacks": run_manager.get_child()})
        return list(output["passages"])

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        config: RunnableConfig = {"callbacks": run_manager.get_child()}
        output = await self.graph.ainvoke({"question": query}, config)
        return list(output["passages"])
