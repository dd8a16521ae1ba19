"""What every method's graph shares: its parts, its schemas, how it is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic

from langchain_core.embeddings import Embeddings
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.graph import Graph
from langchain_core.tools import BaseTool
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Checkpointer, RetryPolicy
from pydantic import BaseModel

from ragweave.graphs.adapters import GraphRetriever, tool_of
from ragweave.graphs.draft import Draft
from ragweave.nodes.answer import AnswerStep
from ragweave.nodes.context_filter import Filters
from ragweave.nodes.options import OptionsT, specialised
from ragweave.nodes.retrieve import Retriever
from ragweave.nodes.scores import scorer_of
from ragweave.nodes.step import Step
from ragweave.state import Branch, RAGInput, RAGOutput, RAGState
from ragweave.tools.drawing import draw_svg, shape_of
from ragweave.tools.filters import ContextFilter
from ragweave.tools.models import Models
from ragweave.tools.scorers.protocol import LogprobScorer


class CompiledGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph over the ragweave state: a LangChain Runnable from input to output.

    Its picture leaves out the handlers of failed nodes, which LangGraph draws unconnected.
    """

    def get_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Graph:
        """Return the graph to draw."""
        return _without_handlers(super().get_graph(config, xray=xray))

    async def aget_graph(
        self, config: RunnableConfig | None = None, *, xray: int | bool = False
    ) -> Graph:
        """Return the graph to draw."""
        return _without_handlers(await super().aget_graph(config, xray=xray))

    def as_tool(
        self,
        args_schema: type[BaseModel] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, type] | None = None,
    ) -> BaseTool:
        """Return a tool that answers a question by this graph, with its sources.

        Args:
            args_schema: What the tool takes, where not a question alone; then LangChain makes
                the tool, and its input is the graph's.
            name: The tool's name, as an agent's model sees it; None: the method's.
            description: When to use it, as an agent's model sees it.
            arg_types: As `args_schema`, by name.
        """
        if args_schema is not None or arg_types is not None:
            return super().as_tool(
                args_schema, name=name, description=description, arg_types=arg_types
            )
        about = description or "Answers a question from the knowledge base, and names its sources."
        return tool_of(self, name or str(self.get_name()), about)

    def as_retriever(self) -> BaseRetriever:
        """Return a retriever of the passages that this graph keeps for a question."""
        return GraphRetriever(graph=self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """Show the graph in a notebook; LangGraph's own picture is drawn by a server far away."""
        picture = draw_svg(shape_of(self.get_graph()), title=f"The graph of {self.get_name()}")
        return {"text/plain": repr(self), "image/svg+xml": picture}


MAX_CONCURRENCY = 1024
"""Branches at once unless the caller's config says less; LangGraph alone runs 6 on two cores."""


@dataclass(frozen=True, kw_only=True)
class Parts(Generic[OptionsT]):
    """What a method is built from."""

    models: Models
    """The models by role."""
    retriever: Retriever | None
    """Where passages come from; None: every input brings its own, or the method needs none."""
    options: OptionsT
    """The method's options."""
    prompts: Mapping[str, ChatPromptTemplate] = field(default_factory=dict)
    """The method's prompt templates by name, the caller's replacements among them."""
    checkpointer: Checkpointer = None
    """Where LangGraph keeps the state of each thread; None: nowhere."""
    context_filter: ContextFilter | None = None
    """The caller's own context filter (FILCO); None: the one that the options name."""
    scorer: LogprobScorer | None = None
    """What scores outputs for the CXMI filter; None: the answering model where it can."""
    embeddings: Embeddings | None = None
    """The caller's own embeddings (SKR-KNN); None: the model that the options name."""
    judge_scorer: LogprobScorer | None = None
    """What reads the judge by score (SlimPLM); None: the judge itself where it can."""

    state: type[RAGState] = RAGState
    """The graph's state: `RAGState`, or a class of the caller's own that extends it."""

    @property
    def filters(self) -> Filters:
        """Where context filters come from."""
        return Filters(self.context_filter, self.scorer or scorer_of(self.models.answer))

    @property
    def retry(self) -> RetryPolicy:
        """The retry policy of every node that calls a model or a retriever."""
        return self.models.retry

    def answers(self, answer: AnswerStep) -> Step[Branch, OptionsT]:
        """Return the node for an answer step."""
        return answer.step(self.models, self.prompts, self.options)


def draft(parts: Parts[Any]) -> Draft:
    """Return an empty graph over the state, its context schema made from the build's options."""
    return Draft(
        parts.state,
        context_schema=specialised(parts.options),
        input_schema=RAGInput,
        output_schema=RAGOutput,
    )


def finish(graph: Draft, name: str, parts: Parts[Any]) -> CompiledGraph:
    """Compile `graph` as `name`, with as many branches at once as it fans out."""
    compiled = graph.compile(checkpointer=parts.checkpointer, name=name)
    drawn = CompiledGraph(**vars(compiled))
    return drawn.with_config({"max_concurrency": MAX_CONCURRENCY})


def _without_handlers(graph: Graph) -> Graph:
    handlers = [node for name, node in graph.nodes.items() if name.startswith("__error_handler__")]
    for handler in handlers:
        graph.remove_node(handler)
    return graph
