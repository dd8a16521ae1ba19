"""Search-R1 and related models: trained to search in the middle of their reasoning, by tags.

Sources: each protocol's tags, prompt, passages per search and number of searches are those that its checkpoints were
trained or evaluated with, in the released code:

* `search_r1`: Jin et al. 2025 (Search-R1, arXiv 2503.09516), table 1, algorithm 1 and section 4.3; three passages, four
  searches and then the answer (the released code; algorithm 1 counts the answer as one of the four); what a search
  finds is cut after 500 tokens, and decoding is greedy.
* `r1_searcher`: Song et al. 2025 (R1-Searcher, arXiv 2503.05592), the prompt of base models; five passages, nine
  searches, 512 tokens a reply.
* `research`: Chen et al. 2025 (ReSearch, arXiv 2503.19470), the prompt of instruct models; five passages.
* `autorefine`: Shi et al. 2025 (AutoRefine, arXiv 2505.11277); three passages, five searches, results cut after 512
  tokens as in training (three searches and 1,024 tokens in its evaluation); greedy.
* `o2_searcher`: Mei et al. 2025 (O2-Searcher, arXiv 2505.16582); one to five queries at once, three passages each, five
  replies of 2,048 tokens; search results come in a user message.

The model writes up to the end of a query, the results are appended in the protocol's tags, and the model continues its
own turn (algorithm 1). After the last search it must answer.

Where we differ: if a model can't continue its own turn, the results come in a user message. After the last search, the
prompt opens the answer tag for the model; the released code only stops searching. R1-Searcher and ReSearch end with a
reply that neither searches nor answers; here the answer is asked for. ReSearch limits tokens, not searches: the limit
of eight is ours. R1-Searcher removes quotation marks from queries; we don't. Its base checkpoints take a plain prompt
(`llamacpp:FILE?chat_template=plain`). For open questions, O2-Searcher has a second model sum up what was found; here
the passages are shown, as its release does for questions with one answer. The tokens of results are estimated.
Search-R1's release adds a question mark to a question that lacks one; we don't. A model that was not trained for a protocol
follows it poorly.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from pydantic import Field, TypeAdapter

from ragweave.graphs.base import Graph, method
from ragweave.nodes import read
from ragweave.nodes.ask import model_node
from ragweave.nodes.loop import (
    ChainOptions,
    LoopState,
    Step,
    Tags,
    add_loop,
    add_step,
    boxed,
    end_loop,
    first_action,
    found_by,
    is_last,
    passages_found,
    transcript,
)
from ragweave.nodes.prompts import Asking, Prompt, Turns
from ragweave.nodes.runner import Components
from ragweave.state import UNKNOWN, RAGState
from ragweave.tools.text.untrusted import title_of, untrusted
from ragweave.tools.text.words import first_tokens

Name = Literal["search_r1", "r1_searcher", "research", "autorefine", "o2_searcher"]


class Protocol(NamedTuple):
    """How a family of checkpoints searches. A checkpoint works only with the prompt that it was trained on."""

    prompt: str | Turns
    query: Tags
    result: str
    """What follows a query; `{found}` is what was found."""
    passage: str
    """How a passage is shown; variables `number`, `title` and `text`."""
    k: int
    max_rounds: int
    invalid: str = ""
    """What follows a reply that neither searches nor answers; "": the answer is asked for at once."""
    chat: bool = False
    """Whether what was found comes as a user's message."""
    reply_tokens: int = 1024
    """Maximum tokens of a reply."""
    result_tokens: int | None = None
    """Maximum tokens of what follows a query, after which it is cut; None: no limit."""
    temperature: float | None = None
    """The temperature at which the checkpoints were evaluated; None: the model's own."""


_DATA = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
PROTOCOLS = TypeAdapter(dict[Name, Protocol]).validate_python(_DATA)
ANSWER = Tags("<answer>", "</answer>")
_MAX_QUERIES = 5
"""Queries of one reply (O2-Searcher's prompt)."""
_LAST = "\nNo search is left, so this is the final answer:\n"
_NOTHING = "Nothing was found."
_MARKS = re.compile(r"<(?=/?(?:search|information|result|documents|learnings|refine|think)>)", re.I)


class SearchR1Options(ChainOptions):
    protocol: Name = Field("search_r1", description="The tags and the prompt that the model was trained on.")
    k: int = Field(3, ge=1, description="Passages per query, unless the protocol sets it.")
    max_rounds: int = Field(4, ge=1, description="Maximum number of searches, unless the protocol sets it.")
    reply_tokens: int = Field(1024, ge=1, description="Maximum tokens of a reply, unless the protocol sets it.")

    def derived(self) -> dict[str, Any]:
        """Add the protocol's settings, which rank above a paper's."""
        protocol = PROTOCOLS[self.protocol]
        settings = {"k": protocol.k, "max_rounds": protocol.max_rounds, "reply_tokens": protocol.reply_tokens}
        greedy = {} if protocol.temperature is None else {"sample_temperature": protocol.temperature}
        return {**super().derived(), **settings, **greedy}


def shown(protocol: Protocol, passages: Sequence[Document]) -> str:
    """Return the result of a search: the passages, which can't close the protocol's marks, cut as in the release."""
    texts = "".join(
        protocol.passage.format(
            number=number, title=title_of(doc), text=_MARKS.sub("‹", untrusted(doc.page_content)).strip()
        )
        for number, doc in enumerate(passages, start=1)
    )
    result = protocol.result.replace("{found}", texts.strip() or _NOTHING)
    return result if protocol.result_tokens is None else first_tokens(result, protocol.result_tokens)


@model_node("generator")
def search_r1(state: LoopState, options: SearchR1Options) -> Asking[Any, LoopState | RAGState]:
    """Ask the model to continue after everything it wrote and found; start the search that it asks for, or end."""
    protocol, last = PROTOCOLS[options.protocol], is_last(state, options)
    passages = passages_found(state, options)

    def messages(fitting: Sequence[Document]) -> list[BaseMessage]:
        def result_of(step: Step) -> str:
            return step["shown"] or (shown(protocol, found_by(step, fitting)) if step["queries"] else "")

        return transcript(state["steps"], result_of, _LAST + ANSWER.begin if last else "")

    reply = yield Prompt(
        options.protocol,
        passages=passages,
        task="step",
        settings=options.sampling,
        stop=[protocol.query.end, ANSWER.end],
        turns=messages,
        own_turn=not protocol.chat,
    )
    turn = first_action(reply, [protocol.query, ANSWER], opened=ANSWER.begin if last else "")
    if last or turn.tags == ANSWER:
        conclusion = boxed(turn.action) or turn.action if turn.tags == ANSWER else ""
        seen = read.text_read(state["question"], passages)
        answer = read.answer(conclusion, state["answer_type"], seen=seen) if conclusion else UNKNOWN
        written = "".join(step["text"] for step in state["steps"]) + turn.text
        truncated = last and not state["must_answer"]
        return end_loop(state, answer, written, reply.ids, passages=passages, truncated=truncated)
    queries = queries_of(turn.action, options.protocol) if turn.tags else []
    update = add_step(state, turn.text, *queries, shown="" if queries else protocol.invalid)
    return {**update, "must_answer": not queries and not protocol.invalid}


def queries_of(text: str, protocol: Name) -> list[str]:
    """Return the queries of an action."""
    listed = re.findall(r"<query>(.*?)(?:</query>|\Z)", text, re.S) if protocol == "o2_searcher" else [text]
    return [query for line in listed[:_MAX_QUERIES] if (query := " ".join(line.split()))]


@method(
    "search_r1",
    paper="Jin et al. 2025, Search-R1",
    when="With a checkpoint trained to search: Search-R1, R1-Searcher, ReSearch, AutoRefine or O2-Searcher.",
    group="agentic",
    calls=lambda o: (1, o.max_rounds + 1),
    options=SearchR1Options,
    state=LoopState,
    prompts={name: protocol.prompt for name, protocol in PROTOCOLS.items()},
)
def search_r1_method(graph: Graph, components: Components) -> None:
    """A trained model searches in the middle of its reasoning, by tags."""
    graph.add_node("search_r1", search_r1(components))
    add_loop(graph, components, "search_r1", then="search_r1")
