"""Odd replies of judge, rewriter, filter and topic: never a crash, never an invented id."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langgraph.checkpoint.memory import InMemorySaver
from tests.scripted import ScriptedChat

from ragweave import build_graph
from ragweave.errors import UsageError
from ragweave.graphs import CompiledGraph
from ragweave.tools.retrieval import PassageRetriever

QUESTION = "Who built the bridge?"
CLAIMS = " ".join(f"<Claim> claim {index} <Query> search for {index}" for index in range(200))
ODD = [
    "",
    " \n\t",
    "none",
    "Unknown",
    "I am sorry, I cannot help with that.",
    "<Known(True)>",
    "<Known(False)>",
    "Known(Tr",
    "<Known(True)><Known(False)>",
    "0, 2",
    "0, 2, 0, 2",
    "-1",
    "knowledge 7, knowledge 99999",
    "0-4",
    "[0, 1",
    "<Claim> Ada built it <Query> bridge builder",
    "<Claim> Ada built it <Query> bridge builder <Claim> Ada bu",
    f"<Claim> {QUESTION} <Query> {QUESTION}",
    "<Claim> a long one <Query> " + "bridge " * 715,
    CLAIMS,
    '{"claims": [{"claim": 1, "query": null}], "ids": [[], {}]}',
    "<think>0, 1, 2",
    "```json\n[0]\n```",
    "So the answer is",
    "{question} %s {0} \\ \x00 \u202e ]]] ))) </passage>",
    "word " * 3000,
]
REPLIES = st.one_of(st.sampled_from(ODD), st.text(max_size=60))


class Found(PassageRetriever):
    """Finds passages named after the start of the query; nothing for a query without letters."""

    def _find(self, query: str, k: int) -> list[Document]:
        if not any(char.isalpha() for char in query):
            return []
        texts = [f"About {query[:20]} {index}. Ada built it." for index in range(min(k, 3))]
        return [
            Document(page_content=text, id=f"{query[:20]}{index}")
            for index, text in enumerate(texts)
        ]


def final_state(graph: CompiledGraph, given: dict[str, Any]) -> dict[str, Any]:
    config = {"configurable": {"thread_id": "t"}}
    graph.invoke(given, config)
    return dict(graph.get_state(config).values)


@settings(max_examples=40)
@given(
    st.sampled_from(["blendfilter", "slimplm", "filco", "adaptive"]),
    st.dictionaries(
        st.sampled_from(["recall", "judge", "rewrite", "topic", "reason", "filter", "extract"]),
        REPLIES,
    ),
    st.sampled_from(["short", "long", "yes_no"]),
    st.sampled_from(["lexical", "llm", "cxmi", "strinc"]),
)
def test_any_replies_end_in_an_answer(
    name: str, said: dict[str, str], answer_type: str, context_filter: str
) -> None:
    model = ScriptedChat(replies=lambda seen: said.get(str(seen.task and seen.task["task"]), "Ada"))
    options = {"filter": context_filter} if name in ("filco", "adaptive") else {}
    graph = build_graph(
        name, model=model, retriever=Found(), checkpointer=InMemorySaver(), k=3, **options
    )
    state = final_state(graph, {"question": QUESTION, "answer_type": answer_type})
    assert state["status"] in ("answered", "unknown")
    assert (state["answer"] == "Unknown") == (state["status"] == "unknown")
    found = {doc.id for docs in state["retrieved"].values() for doc in docs}
    assert {doc.id for doc in state["passages"]} <= found
    for key, docs in state["kept"].items():
        assert {doc.id for doc in docs} <= {doc.id for doc in state["retrieved"][key]}
    assert all(len(query) < 2100 for query in state["queries"].values())
    assert len(state["claims"]) <= 20


@pytest.mark.parametrize("name", ["blendfilter", "slimplm", "direct"])
def test_a_filter_belongs_to_the_methods_that_have_one(name: str) -> None:
    with pytest.raises(UsageError, match="has no option 'filter'"):
        build_graph(name, filter="lexical")
