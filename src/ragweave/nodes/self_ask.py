"""The steps of Self-Ask: ask the next follow-up or answer, and read what a follow-up found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate

from ragweave.nodes.ask import Ask, Reply, ask
from ragweave.nodes.prompt import Prompt, Templates
from ragweave.nodes.replies import parse_answer
from ragweave.nodes.rounds import (
    Loop,
    RoundOptions,
    conclude_chain,
    ids_of,
    limit_ended,
    refuse_samples,
    round_key,
    search_for,
)
from ragweave.nodes.self_ask_reply import SelfAskReply, final_answer, parse_self_ask
from ragweave.nodes.step import Context, Step, Work, pure
from ragweave.state import Hop, RAGState, Update
from ragweave.tools.models import Models
from ragweave.tools.text.unknown import UNKNOWN, is_unknown
from ragweave.tools.text.untrusted import one_line

NAME = "self_ask"

LOOP = Loop(node=NAME, round=("retrieve", "collect", "read"))


@dataclass(frozen=True, kw_only=True)
class SelfAskOptions(RoundOptions):
    """Options of `self_ask`."""

    stop_sequences: bool = True
    """Whether to send stop sequences; some reasoning models refuse them, and none is needed."""

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        refuse_samples(self, NAME)


def self_ask_step(
    models: Models, templates: Templates, options: SelfAskOptions
) -> Step[RAGState, SelfAskOptions]:
    """Return the node `self_ask`: one call of the chain.

    It starts a search for the follow-up that the model asks, or ends the run with its final
    answer. After the last round the prompt itself says "So the final answer is:". A first reply
    that says Unknown, or nothing readable, makes the question itself the follow-up: the papers
    are silent there, and nothing has been looked up yet.
    """

    def prompt(state: RAGState, opts: SelfAskOptions) -> Prompt:
        return chain_prompt(state, opts, templates["self_ask"])

    question = Ask[RAGState, SelfAskOptions](
        name=NAME, role="answer", prompt=prompt, update=chain_update
    )
    return question.step(models, options)


def chain_prompt(state: RAGState, options: SelfAskOptions, template: ChatPromptTemplate) -> Prompt:
    """Ask for the next line of the dialogue; what was asked so far stands in the passages' place.

    Intermediate answers count as passages, so that a dialogue that is too long loses some.
    """
    last = is_last(state, options)

    def render(kept: Sequence[Document]) -> str:
        return dialogue(kept, last=last)

    return Prompt(
        template,
        {
            "task": "step",
            "question": state["question"],
            "answer_type": state["resolved_answer_type"],
        },
        {"question": state["question"]},
        [_as_document(hop, at) for at, hop in enumerate(state["hops"])],
        {"stop": ["\nIntermediate answer:"]} if options.stop_sequences and not last else {},
        render,
    )


def is_last(state: RAGState, options: SelfAskOptions) -> bool:
    """Say whether no further follow-up may be asked."""
    return LOOP.is_last(state, done=len(state["hops"]), most=options.rounds)


def dialogue(hops: Sequence[Document], *, last: bool) -> str:
    """Return the text behind "Are follow up questions needed here:"."""
    lines = [" Yes." if hops else " No."] if hops or last else []
    for hop in hops:
        lines.append(f"Follow up: {one_line(hop.metadata['title'])}")
        lines.append(f"Intermediate answer: {one_line(hop.page_content)}")
    return "\n".join([*lines, "So the final answer is:"] if last else lines)


def _as_document(hop: Hop, at: int) -> Document:
    titled = {"title": hop["query"], "rank": at}
    return Document(id=hop["key"], page_content=hop["result"], metadata=titled)


def chain_update(state: RAGState, reply: Reply, context: Context[SelfAskOptions]) -> Update:
    """Start the search that the reply asks for, or end with its answer."""
    hops, options, answer_type = state["hops"], context.options, state["resolved_answer_type"]
    last = is_last(state, options)
    if last:
        said = SelfAskReply("final", final_answer(reply.text, answer_type))
    else:
        said = parse_self_ask(reply.text, answer_type, first=not hops)
    query = _to_look_up(said, "" if hops or last else state["question"])
    asks_on = last and said.text in ("", UNKNOWN) and not is_unknown(reply.text)
    if said.kind == "unreadable" or asks_on:
        context.note("step_unparsed")
    elif said.kind == "final" and query:
        context.note("unknown_before_search")
    if query:
        number = len(hops)
        hop: Hop = {"key": round_key(number), "thought": "", "query": query, "result": ""}
        return {"hops": [*hops, hop], **search_for(state, number, query)}
    answer = said.text or UNKNOWN
    return conclude_chain(
        state,
        options,
        pool=NAME,
        answer=answer,
        reply=reply.text,
        keys=[hop["key"] for hop in hops],
        read=state["read"],
        truncated=limit_ended(answer, last=last, early=len(hops) < options.rounds),
    )


def _to_look_up(said: SelfAskReply, otherwise: str) -> str:
    """Return the follow-up; `otherwise` where there is neither one nor an answer."""
    if said.kind == "follow_up":
        return said.text
    return otherwise if said.text in ("", UNKNOWN) else ""


def read_step(
    models: Models, templates: Templates, options: SelfAskOptions
) -> Step[RAGState, SelfAskOptions]:
    """Return the node `read`: reads the follow-up's passages into an intermediate answer."""

    def prompt(state: RAGState, _options: SelfAskOptions) -> Prompt:
        asked = state["hops"][-1]["query"]
        return Prompt(
            templates["self_ask_reader"],
            {"task": "answer", "question": asked, "answer_type": "long"},
            {"question": asked},
            state["passages"],
        )

    question = Ask[RAGState, SelfAskOptions](
        name="read", role="answer", prompt=prompt, update=read_update
    )

    def body(state: RAGState, context: Context[SelfAskOptions]) -> Work:
        if not state["passages"]:
            return pure(read_update(state, Reply("", []), context))
        return ask(question, models, state, context)

    return Step("read", body, options)


def read_update(state: RAGState, reply: Reply, _context: Context[SelfAskOptions]) -> Update:
    """Add the intermediate answer to the dialogue; Unknown where nothing was found or said."""
    *before, hop = state["hops"]
    answer = " ".join(parse_answer(reply.text, "long").split())
    return {
        "hops": [*before, {**hop, "result": answer}],
        "round": len(state["hops"]),
        "read": [*state["read"], *ids_of(reply.passages)],
    }
