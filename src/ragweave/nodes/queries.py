"""The option `query`: a model writes what is searched for instead of the question.

* `hyde`: the question, and a passage that might answer it (Gao et al. 2022, Precise Zero-Shot Dense Retrieval
  without Relevance Labels, arXiv 2212.10496, equation 8, where the question's vector is part of the mean).
* `query2doc`: five times the question, then such a passage, as one text (Wang et al. 2023, arXiv 2303.07678,
  equation 1, for sparse retrieval).
* `fusion`: the question and four more queries (Rackauckas 2024, RAG-Fusion, arXiv 2402.03367).
* `step_back`: the question and a more general one (Zheng et al. 2023, Take a Step Back, arXiv 2310.06117, section 5.1).
* `decompose`: the question and at most five sub-questions (Ammann et al. 2025, arXiv 2507.00355, section 5.3).

Where we differ: results of several texts are merged by reciprocal rank, with HyDE, too, which averages the vectors of
the question and of several passages. The prompts are ours; Query2doc's has four examples.
"""

from functools import reduce
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph
from langgraph.runtime import get_runtime
from pydantic import Field

from ragweave.nodes import read
from ragweave.nodes.ask import model_node
from ragweave.nodes.forms import Form, limited_list
from ragweave.nodes.options import Options
from ragweave.nodes.prompts import PASSAGE_TOKENS, QUERY_TOKENS, Asking, Prompt, Prompts, Turns, few_shot
from ragweave.nodes.retrieve import TO_RETRIEVAL, Query, add_search, retrieve_node, to_retrieval
from ragweave.nodes.runner import Caller, Components, FunctionNode, Node
from ragweave.state import add_usage, note
from ragweave.state.passages import ranked
from ragweave.tools.retrieval.retrievers import fused

MAX_QUERIES = {"fusion": 4, "step_back": 1, "decompose": 5}
"""How many queries are written."""
_REPEATS, _QUESTION = 5, "question"


class SearchOptions(Options):
    """Options of a method that searches for the question itself."""

    query: Literal["hyde", "query2doc", "fusion", "step_back", "decompose"] | None = Field(
        None,
        description="What to search for; none: the question. Otherwise a model writes a passage that may answer it (hyde, "
        "query2doc), more queries (fusion), a more general question (step_back) or sub-questions (decompose). Methods "
        "that write their own queries lack this option.",
    )

    @property
    def query_calls(self) -> tuple[int, int]:
        """The minimum and the maximum of calls that write queries."""
        return (self.query is not None,) * 2


class Queries(Form):
    """Search queries."""

    queries: list[str] = limited_list(max(MAX_QUERIES.values()))


_PASSAGE = [
    ("system", "You write a short passage as it might stand in an encyclopedia: a few sentences, nothing else."),
    ("human", "Write a passage that answers the question.\nQuestion: {question}"),
]


def _listing(task: str, *queries: str) -> Turns:
    ask = f"{task} Write each on a line of its own and nothing else.\nQuestion: {{question}}"
    return few_shot(ask, ("Where was the engineer of the bridge at Verra born?", "\n".join(queries)))


PROMPTS: Prompts = {
    "query_hyde": _PASSAGE,
    "query_query2doc": _PASSAGE,
    "query_fusion": _listing(
        "Write four search queries that look for the answer to the question in different words.",
        "birthplace of the engineer of the Verra bridge",
        "who built the bridge at Verra",
        "Verra bridge engineer biography",
        "early life of the builder of the bridge at Verra",
    ),
    "query_step_back": _listing(
        "Write one more general question, whose answer helps with the question.",
        "What is the life story of the engineer of the bridge at Verra?",
    ),
    "query_decompose": _listing(
        "Write the questions, five at most, that have to be answered one after the other to answer the question.",
        "Who was the engineer of the bridge at Verra?",
        "Where was this engineer born?",
    ),
}
"""The templates by `query_` and the option's value; variable: `question`."""


@model_node("rewriter")
def rewrite(query: Query, options: SearchOptions) -> Asking[Queries, dict[str, Any]]:
    """Ask for the texts to search for; the question alone if the model writes none."""
    question, kind = query["text"], str(options.query)
    lists = kind in MAX_QUERIES
    reply = yield Prompt(
        f"query_{kind}",
        {"question": question},
        form=Queries if lists else None,
        max_tokens=QUERY_TOKENS if lists else PASSAGE_TOKENS,
        task="rewrite" if lists else "recall",
    )
    written = reply.form.queries[: MAX_QUERIES[kind]] if reply.form else [] if lists else [reply.text]
    texts = [text.strip() for text in written if text.strip() and not read.is_unknown(text)]
    longer = [" ".join([question] * _REPEATS + texts)] if kind == "query2doc" and texts else []
    searches = [Query(name=_QUESTION, text=text) for text in longer or dict.fromkeys([question, *texts])]
    return {"searches": searches, "notes": [] if texts else [note("no_query_written")]}


def search_node(components: Components) -> Node:
    """Return a retrieval node that searches for the question as the option `query` says."""
    search, rewriting = retrieve_node(components.retriever), rewrite(components)

    async def search_as_asked(query: Query, config: RunnableConfig, caller: Caller) -> Any:
        options = get_runtime(SearchOptions).context
        if query["name"] != _QUESTION or options.query is None:
            return await caller.call(search, query, config)
        rewritten = await caller.call(rewriting, query, config)
        updates = await caller.call(search.map(), rewritten["searches"], config)
        rankings = [update["retrieved"][_QUESTION] for update in updates]
        best = fused(rankings, options.k) if len(rankings) > 1 else rankings[0]
        usage = reduce(add_usage, (update["usage"] for update in updates), rewritten["usage"])
        return {"retrieved": {_QUESTION: ranked(best, _QUESTION)}, "usage": usage, "notes": rewritten["notes"]}

    return FunctionNode(search_as_asked, name="retrieve")


def add_retrieval(graph: StateGraph[Any, Any, Any, Any], components: Components) -> None:
    """Add the nodes `retrieve` and `collect` after `begin`."""
    add_search(graph, search_node(components))
    graph.add_conditional_edges("begin", to_retrieval, TO_RETRIEVAL)
