"""The option `query`: what is searched for in the question's place."""

from __future__ import annotations

from typing import Any

import pytest

from ragweave.errors import UsageError
from ragweave.graphs import METHODS, build_graph
from ragweave.nodes.queries import SearchOptions
from ragweave.testing import RecordingRetriever, ScriptedModel

QUESTION = "Who built the bridge at Alden?"
PASSAGE = "The bridge at Alden was built by Karl Oster."


def run(query: str | None, reply: str, **options: Any) -> tuple[dict[str, Any], Any, list[str]]:
    model, retriever = ScriptedModel(script={"retrieve": reply, "concat": "Ada Brenner"}), RecordingRetriever()
    graph = build_graph("concat", model=model, retriever=retriever, k=2, **options)
    return graph.invoke({"question": QUESTION}, context={"query": query}), model.calls, retriever.searches


@pytest.mark.parametrize(
    ("query", "reply", "searches"),
    [
        (None, "", [QUESTION]),
        ("hyde", PASSAGE, [QUESTION, PASSAGE]),
        ("query2doc", PASSAGE, [" ".join([QUESTION] * 5 + [PASSAGE])]),
        (
            "fusion",
            "1. Alden bridge\n2. builder\n3. arches\n4. granite\n5. ice",
            [QUESTION, "Alden bridge", "builder", "arches", "granite"],
        ),
        ("step_back", "Which bridges did engineers build?\nMore?", [QUESTION, "Which bridges did engineers build?"]),
        ("decompose", '{"queries": ["Who drew it?", "Who paid?"]}', [QUESTION, "Who drew it?", "Who paid?"]),
        ("hyde", "I don't know.", [QUESTION]),
        ("fusion", "", [QUESTION]),
    ],
)
def test_what_is_searched_for(query: str | None, reply: str, searches: list[str]) -> None:
    out, calls, searched = run(query, reply)
    assert sorted(searched) == sorted(searches)  # several at once
    assert out["usage"]["calls"] == len(calls) == 1 + (query is not None)
    assert (out["usage"]["retrievals"], len(out["passages"])) == (len(searches), 2)


def test_what_several_queries_find_ranks_first() -> None:
    out, _, _ = run("step_back", "Which river carries ice?")
    alone = {
        text: [passage.id for passage in RecordingRetriever().invoke(text, k=2)]
        for text in (QUESTION, "Which river carries ice?")
    }
    (shared,) = set.intersection(*map(set, alone.values()))
    assert out["passages"][0].id == shared


def test_the_rewriter_writes_them() -> None:
    rewriter = ScriptedModel(script=[PASSAGE], role="rewriter")
    out, calls, _ = run("hyde", "", rewriter=rewriter)
    assert (len(rewriter.calls), len(calls), out["usage"]["by_role"]["rewriter"]["calls"]) == (1, 1, 1)


def test_methods_that_write_their_own_queries_lack_it() -> None:
    lacking = [method.name for method in METHODS.ours() if not issubclass(method.options, SearchOptions)]
    assert {"ircot", "self_ask", "react", "agentic", "blendfilter", "slimplm", "flare", "iter_retgen"} <= set(lacking)
    with pytest.raises(UsageError, match=r"ircot has no option 'query'.*is an option of direct, cot, concat"):
        build_graph("ircot", query="hyde")
    with pytest.raises(UsageError, match="query"):
        build_graph("concat", query="hide")
