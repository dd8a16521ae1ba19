"""Search-R1 and related models: trained to search in the middle of their reasoning, by tags.

Sources: each protocol's tags, prompt, passages per search and number of searches are those that its checkpoints were
trained or evaluated with, in the released code:

* `search_r1`: Jin et al. 2025 (Search-R1, arXiv 2503.09516), table 1, algorithm 1 and section 4.3; three passages, four
  searches and then the answer (the released code; algorithm 1 counts the answer as one of the four).
* `r1_searcher`: Song et al. 2025 (R1-Searcher, arXiv 2503.05592), the prompt of base models; five passages, nine
  searches.
* `research`: Chen et al. 2025 (ReSearch, arXiv 2503.19470), the prompt of instruct models; five passages.
* `autorefine`: Shi et al. 2025 (AutoRefine, arXiv 2505.11277); three passages, five searches as in training (three in
  its evaluation).
* `o2_searcher`: Mei et al. 2025 (O2-Searcher, arXiv 2505.16582); one to five queries at once, three passages each, five
  replies; search results come in a user message.

The model writes up to the end of a query, the results are appended in the protocol's tags, and the model continues its
own turn (algorithm 1). After the last search it must answer.

Where we differ: if a model can't continue its own turn, the results come in a user message. After the last search, the
prompt opens the answer tag for the model; the released code only stops searching. R1-Searcher and ReSearch end with a
reply that neither searches nor answers; here the answer is asked for. ReSearch limits tokens, not searches: the limit
of eight is ours. R1-Searcher removes quotation marks from queries; we don't. Its base checkpoints take a plain prompt
(`llamacpp:FILE?chat_template=plain`). For open questions, O2-Searcher has a second model sum up what was found; here
the passages are shown, as its release does for questions with one answer. A model that was not trained for a protocol
follows it poorly.
"""

import re
from collections.abc import Sequence
from typing import Any, get_args

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langgraph.graph import END
from pydantic import Field, model_validator

from ragweave.graphs.base import Graph, method
from ragweave.graphs.protocols import ANSWER, PROTOCOLS, Name, Protocol
from ragweave.nodes import read
from ragweave.nodes import turns as loop
from ragweave.nodes.ask import model_node
from ragweave.nodes.chain import ChainOptions, end_chain, to_search
from ragweave.nodes.prompts import Asking, Prompt
from ragweave.nodes.retrieve import retrieve_node
from ragweave.nodes.runner import Components
from ragweave.nodes.turns import Turn, TurnsState
from ragweave.state import UNKNOWN, RAGState
from ragweave.tools.text.untrusted import title_of, untrusted

_MOST_QUERIES = 5
"""Queries of one reply (O2-Searcher's prompt)."""
_LAST = "\nNo search is left, so this is the final answer:\n"
_NOTHING = "Nothing was found."
_MARKS = re.compile(r"<(?=/?(?:search|information|result|documents|learnings|refine|think)>)", re.I)


class SearchR1Options(ChainOptions):
    protocol: Name = Field("search_r1", description="The tags and the prompt that the model was trained on.")
    k: int = Field(3, ge=1, description="Passages per query, unless the protocol sets it.")
    rounds: int = Field(4, ge=1, description="Maximum number of searches, unless the protocol sets it.")
    reply_tokens: int = Field(1024, ge=1, description="Maximum tokens of a reply (Search-R1's released code).")

    @model_validator(mode="before")
    @classmethod
    def _of_protocol(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Add the protocol's settings, unless the caller set them."""
        name = given.get("protocol", cls.model_fields["protocol"].default)
        if name not in get_args(Name) or given.keys() >= cls.model_fields.keys():
            return given
        fixed = {"k": PROTOCOLS[name].k, "rounds": PROTOCOLS[name].rounds}
        return {**{one: value for one, value in fixed.items() if one not in cls.built_with}, **given}


def shown(protocol: Protocol, passages: Sequence[Document]) -> str:
    """Return the result of a search: the passages, which can't close the protocol's marks."""
    found = "".join(
        protocol.passage.format(
            number=number, title=title_of(one), text=_MARKS.sub("‹", untrusted(one.page_content)).strip()
        )
        for number, one in enumerate(passages, start=1)
    )
    return protocol.result.replace("{found}", found.strip() or _NOTHING)


@model_node("generator")
def search_r1(state: TurnsState, options: SearchR1Options) -> Asking[Any, TurnsState | RAGState]:
    """Ask the model to continue after everything it wrote and found; start the search that it asks for, or end."""
    protocol, last = PROTOCOLS[options.protocol], loop.is_last(state, options)

    def messages(passages: Sequence[Document]) -> list[BaseMessage]:
        def result_of(turn: Turn) -> str:
            return turn["result"] or (shown(protocol, loop.of_turn(turn, passages)) if turn["names"] else "")

        return loop.transcript(state["turns"], result_of, _LAST + ANSWER.begin if last else "")

    reply = yield Prompt(
        options.protocol,
        passages=loop.found_in_turns(state, options),
        task="step",
        settings=options.sampling,
        stop=[protocol.query.end, ANSWER.end],
        turns=messages,
        own_turn=not protocol.chat,
    )
    done = loop.action_of(reply, [protocol.query, ANSWER], opened=ANSWER.begin if last else "")
    if last or done.tags == ANSWER:
        said = loop.boxed(done.text) or done.text
        answer = read.answer(said, state["answer_type"]) if said and done.tags == ANSWER else UNKNOWN
        written = "".join(one["said"] for one in state["turns"]) + done.said
        passages, truncated = loop.found_in_turns(state, options), last and not state["must_answer"]
        return end_chain(state, answer, written, reply.ids, passages=passages, truncated=truncated)
    wanted = queries_of(done.text, options.protocol) if done.tags else []
    queries = loop.searched(state, wanted) if wanted else {}
    turn = Turn(said=done.said, names=[*queries], result="" if wanted else protocol.invalid)
    return {"turns": [*state["turns"], turn], "queries": queries, "must_answer": not wanted and not protocol.invalid}


def queries_of(text: str, protocol: Name) -> list[str]:
    """Return the queries of an action."""
    listed = re.findall(r"<query>(.*?)(?:</query>|\Z)", text, re.S) if protocol == "o2_searcher" else [text]
    return [said for one in listed[:_MOST_QUERIES] if (said := " ".join(one.split()))]


@method(
    "search_r1",
    paper="Jin et al. 2025, Search-R1",
    when="With a checkpoint trained to search: Search-R1, R1-Searcher, ReSearch, AutoRefine or O2-Searcher.",
    group="agentic",
    calls=lambda o: (1, o.rounds + 1),
    options=SearchR1Options,
    state=TurnsState,
    prompts={name: one.prompt for name, one in PROTOCOLS.items()},
)
def search_r1_method(graph: Graph, components: Components) -> None:
    """A trained model searches in the middle of its reasoning, by tags."""
    graph.add_node("search_r1", search_r1(components))
    graph.add_node("retrieve", retrieve_node(components.retriever))
    graph.add_edge("begin", "search_r1")
    graph.add_conditional_edges(
        "search_r1",
        to_search,
        {"search": "retrieve", "passages given": "search_r1", "go on": "search_r1", "answered": END},
    )
    graph.add_edge("retrieve", "search_r1")
