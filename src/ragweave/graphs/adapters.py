"""A compiled method in a LangChain app: a tool of an agent, or a retriever of a chain."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.exceptions import ContextOverflowError
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, ToolException

from ragweave.errors import PromptTooLongError, UsageError
from ragweave.tools.footnotes import footnotes, label_of, with_marks
from ragweave.tools.models.budget import Budget, Limits
from ragweave.tools.models.messages import count_dollars
from ragweave.tools.text.untrusted import one_line

_Question = Annotated[str, "The question to answer from the knowledge base."]


def tool_of(graph: Runnable[Any, Any], name: str, description: str) -> BaseTool:
    """Return a tool that answers a question by a compiled method.

    The agent reads the answer with its quotes, or its sources without `citations=True`; the full output is the artifact.
    A question that is empty, or too long for the model, comes back to the agent as the tool's error text.
    """

    def run(question: _Question, config: RunnableConfig) -> tuple[str, dict[str, Any]]:
        with _errors_for_the_agent():
            return _content_and_artifact(graph.invoke({"question": question}, config))

    async def arun(question: _Question, config: RunnableConfig) -> tuple[str, dict[str, Any]]:
        with _errors_for_the_agent():
            return _content_and_artifact(await graph.ainvoke({"question": question}, config))

    return StructuredTool.from_function(
        run,
        arun,
        name=name,
        description=description,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


@contextmanager
def _errors_for_the_agent() -> Iterator[None]:
    try:
        yield
    except (PromptTooLongError, ContextOverflowError) as error:
        raise ToolException("the question is too long for the model: ask a shorter one") from error
    except UsageError as error:
        raise ToolException(str(error)) from error


def _content_and_artifact(output: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    lines, passages = [with_marks(output["answer"], output["citations"])], output["passages"]
    if notes := footnotes(output["citations"], passages):
        lines += [
            "",
            "Quotes:",
            *(f"[{note.number}] “{one_line(note.quote['text'])}” ({one_line(note.label)})" for note in notes),
        ]
    elif output["status"] == "answered" and passages:
        lines += ["", "Sources:", *dict.fromkeys(f"- {one_line(label_of(doc))}" for doc in passages)]
    return "\n".join(lines), dict(output)


class GraphRetriever(BaseRetriever):
    """A retriever that returns the passages that a method answered from.

    The method runs to its end, including the answer, so that filters such as BlendFilter's and FILCO's apply. A graph that
    searches by it counts its calls after each search.
    """

    graph: Any
    """The compiled method."""

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        with Budget(Limits()).holding():  # not that of the graph that searches, which would count its calls twice
            output = self.graph.invoke({"question": query}, {"callbacks": run_manager.get_child()})
        return _found(output)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        with Budget(Limits()).holding():
            output = await self.graph.ainvoke({"question": query}, {"callbacks": run_manager.get_child()})
        return _found(output)


def _found(output: Mapping[str, Any]) -> list[Document]:
    """Return the passages of a run, of whose cost the counter of calls is told."""
    usage = output["usage"]
    count_dollars(usage.get("usd", 0.0), usage.get("priced_calls", 0))
    return list(output["passages"])
