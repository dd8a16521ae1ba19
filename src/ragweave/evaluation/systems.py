"""Systems under test: a method's graph with models, passages and metrics."""

import hashlib
import importlib.util
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, cast

from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import ensure_config
from langgraph.types import RetryPolicy

from ragweave.datasets import Question
from ragweave.errors import UsageError, did_you_mean
from ragweave.evaluation.folder import Record
from ragweave.evaluation.metrics import Metric, scores
from ragweave.evaluation.metrics.passages import gold_names
from ragweave.evaluation.why import LOST
from ragweave.graphs import Method, build_graph
from ragweave.graphs.base import RETRY
from ragweave.graphs.specs import SystemSpec
from ragweave.graphs.trace_page import trace_page
from ragweave.graphs.watch import Watch
from ragweave.nodes.prompts import template_of
from ragweave.roles import ROLES, arguments_of, player_of
from ragweave.tools.models.messages import task_passage
from ragweave.tools.models.roles import unbound
from ragweave.tools.providers import chat_model
from ragweave.tools.replies import ReplyCache, asking
from ragweave.tools.retrieval import Bm25Retriever, PassageRetriever
from ragweave.tools.retrieval.base import find_with
from ragweave.tools.retrieval.retrievers import SearchRetriever
from ragweave.tools.text.untrusted import redacted

Gold = Literal["as_found", "with", "without"]
"""The treatment of gold passages: unchanged, one inserted if none was found, or all removed."""


@dataclass
class GraphSystem:
    """A graph that answers questions."""

    graph: Any
    k: int
    name: str = ""
    metrics: Sequence[Metric] = ()
    retriever: Any = None
    """What is searched: a retriever, or `own_passages`."""
    large: frozenset[str] = frozenset({"generator"})
    """The roles that the generator plays: those without a model of their own."""
    judge: Any = None
    """The chat model of judged metrics."""
    given: bool = False
    """Whether the graph gets a question's own passages instead of a search."""
    gold: Gold = "as_found"
    oracle: bool = False
    """Whether the graph's filter may see the right answers."""
    seed: int = 0
    traces: Path | None = None
    """Where the path of each lost answer is written as a page; None: nowhere."""
    state: str = ""
    """That of the knowledge base that it searches; "" without one."""

    async def __call__(self, question: Question) -> Record:
        """Answer a question, and score the answer."""
        values: dict[str, Any] = {"question": question.question, "answer_type": question.answer_type}
        if self.given:
            values["passages"] = with_gold(list(question.passages), question, self.gold, self.seed, self.k)
        if self.oracle:
            values["gold_answers"] = question.about.get("label") or list(question.answers)
        graph = self.graph.with_config(configurable={_SEARCH: self._search_for(question)})
        state = await graph.ainvoke(values, output_keys=_STATE)
        state |= {"depth": self.k, "large": self.large}
        scored = await scores(question, state, self.metrics, self.judge)
        is_lost = any(score for name, score in scored.items() if name.startswith(LOST))
        trace = await self._trace(graph, question, values) if self.traces and is_lost else ""
        return record_of(question, state) | {"scores": scored, "trace": trace}

    def _search_for(self, question: Question) -> Callable[[str, int], list[Document]]:
        """Return the search of a question's run, which treats gold passages as it should."""
        base = own_passages(question) if self.retriever is own_passages else self.retriever

        def search(query: str, k: int) -> list[Document]:
            wanted = k + len(question.gold) if self.gold == "without" else k
            passages = list[Document]()
            while len(passages) < k:
                found = find_with(base, question.searched(query), wanted)
                passages = with_gold(found, question, self.gold, self.seed, k)
                if len(found) < wanted:
                    break
                wanted *= 2
            return passages

        return search

    async def _trace(self, graph: Any, question: Question, values: Mapping[str, Any]) -> str:
        """Write the page of a run, whose replies are all stored by now, and return its name."""
        watch, name = Watch(), hashlib.sha256(f"{self.name}\0{question.id}".encode(errors="replace")).hexdigest()[:16]
        with asking():
            await watch.follow(graph, values)
        folder = cast("Path", self.traces)
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.html").write_text(trace_page(self.graph, question.question, watch), "utf-8", "replace")
        return f"{folder.name}/{name}.html"


_STATE = ["answer", "status", "truncated", "usage", "passages", "retrieved", "candidates", "citations", "notes"]
"""The keys read from a graph's state: its output lacks what was retrieved."""


def record_of(question: Question, state: Mapping[str, Any]) -> Record:
    """Return the record of an answer."""
    return {
        "question": question.question,
        "gold": list(question.answers) or [list(names) for names in question.parts],
        **{name: state[name] for name in ("answer", "status", "truncated", "usage")},
        "passages": [task_passage(doc) for doc in state["passages"]],
        "retrieved": {query: [doc.id for doc in docs] for query, docs in (state.get("retrieved") or {}).items()},
        "candidates": state["candidates"],
        "citations": state.get("citations") or [],
        "notes": state.get("notes", []),
    }


def open_model(spec: Any, cache: ReplyCache, stack: AsyncExitStack, name: str = "") -> Any:
    """Open a chat model whose replies are stored until the stack is left, under `name`, else its spec.

    The client retries transient errors (429, 5xx), below the cache: if LangGraph did, a node would repeat its finished
    calls; if the run did, it would cancel calls in flight beside the failed one that are already paid for. LangGraph
    retries only for clients that don't. aiohttp's client, if installed, takes less processor time.
    """
    model: Any = chat_model(spec)
    if hasattr(model, "root_async_client") and getattr(model, "http_async_client", None) is None:
        import openai

        fast = importlib.util.find_spec("aiohttp") is not None
        kind: Any = openai.DefaultAioHttpClient if fast else openai.DefaultAsyncHttpxClient
        client = kind(event_hooks={"response": [_stop_retries]})
        stack.push_async_callback(client.aclose)
        tries = max(_RETRIES, model.max_retries or 0)
        model.root_async_client = model.root_async_client.with_options(http_client=client, max_retries=tries)
        model.async_client = model.root_async_client.chat.completions
    return cache.attach(model, redacted(name or str(spec)))


_RETRIES = 8


async def _stop_retries(response: Any) -> None:
    """Stop OpenAI's client, which retries after any 429, from retrying if the credit is spent."""
    if response.status_code == 429 and b"insufficient_quota" in await response.aread():
        response.headers["x-should-retry"] = "false"


def graph_system(
    system: SystemSpec,
    models: Mapping[str, Any],
    retriever: Any,
    *,
    more: Mapping[str, Any] | None = None,
    **fields: Any,
) -> GraphSystem:
    """Build a system.

    `models` are by role. `retriever` is a retriever, `own_passages` to search each question's own, or None. `more` are
    further arguments of `build_graph`, such as a scorer; `fields` are fields of the system.
    """
    played, more = system.played(models), more or {}
    clients_retry = all(hasattr(unbound(model), "max_retries") for model in played.values())
    graph = build_graph(
        system.method,
        retriever=None if retriever is None else RunRetriever(base=None if retriever is own_passages else retriever),
        retry_policy=RetryPolicy(max_attempts=1) if clients_retry else RETRY,  # see `open_model`
        **arguments_of(played),
        **{**more, "prompts": {**system.prompts, **more.get("prompts", {})}},
        **system.options,
    )
    schema: Any = graph.context_schema
    large = frozenset(role.name for role in ROLES.values() if player_of(role.name, played) == "generator")
    return GraphSystem(graph=graph, k=schema().k, retriever=retriever, large=large, **fields)


def own_passages(question: Question) -> PassageRetriever:
    """Return a BM25 retriever over a question's own passages.

    Passages that share no word with the query come last, in the file's order.
    """
    passages = list(question.passages)
    index = cache(partial(Bm25Retriever.from_documents, passages))

    def search(query: str, k: int) -> list[Document]:
        docs = index().find(query, k)
        ids = {doc.id for doc in docs}
        return [*docs, *(doc for doc in passages if doc.id not in ids)][:k]

    return SearchRetriever(search=search)


class RunRetriever(PassageRetriever):
    """The retriever of a graph whose runs each bring their own search in their config."""

    def _find(self, query: str, k: int) -> list[Document]:
        docs: list[Document] = ensure_config()["configurable"][_SEARCH](query, k)
        return docs


_SEARCH = "ragweave_search"
"""The entry of a config's `configurable`."""


def with_gold(passages: Sequence[Document], question: Question, gold: Gold, seed: int, k: int) -> list[Document]:
    """Mark gold passages (`metadata["gold"]`); insert one if there is none, or remove all.

    The inserted passage replaces one drawn at random, or is added if there are fewer than `k` (Liu et al. 2024, section
    4.1). Its position depends only on question and seed.
    """
    marked = [_marked(doc, not question.gold.keys().isdisjoint(gold_names(question, [doc]))) for doc in passages]
    if gold == "without":
        return [doc for doc in marked if not doc.metadata["gold"]][:k]
    best = marked[:k]
    first = next((doc for doc in question.passages if doc.id in question.gold), None)
    if gold == "with" and first is not None and not any(doc.metadata["gold"] for doc in best):
        drawn = random.Random(f"{seed}:{question.id}")
        at = drawn.randint(0, len(best)) if len(best) < k else drawn.randrange(len(best))
        best[at : at + (len(best) >= k)] = [_marked(first, True)]
    return best


def _marked(doc: Document, gold: bool) -> Document:
    return doc.model_copy(update={"metadata": {**doc.metadata, "gold": gold}})


def own_prompts(system: str, method: Method, texts: Mapping[str, Any]) -> dict[str, ChatPromptTemplate]:
    """Return templates that replace a method's prompts, from a text or from messages, such as `[["system", "…"], …]`.

    Raises:
        UsageError: There is no such prompt, or its text has an unknown variable; the error names the known ones.
    """
    templates = {}
    for name, text in texts.items():
        if name not in method.prompts:
            raise UsageError(
                f"{system}: {method.name} has no prompt {name!r}: {did_you_mean(str(name), method.prompts)}"
            )
        try:
            templates[name] = template_of(text)
        except (ValueError, TypeError) as error:
            raise UsageError(f"{system}: prompt {name} is neither a text nor [role, text] pairs: {error}") from error
        known = method.prompts[name].input_variables
        if unknown := ", ".join(sorted({*templates[name].input_variables} - {*known})):
            raise UsageError(f"{system}: prompt {name} has no variable {unknown}; it has {', '.join(known)}")
    return templates
