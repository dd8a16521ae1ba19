"""The steps of Self-Ask: ask the next follow-up or answer, and read what a follow-up found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig

from ragweave.nodes.ask import Ask, Reply, ask
from ragweave.nodes.notes import note, rejected
from ragweave.nodes.prompt import Prompt, Templates
from ragweave.nodes.replies import parse_answer
from ragweave.nodes.rounds import (
    RoundOptions,
    ended,
    ids_of,
    limit_ended,
    refuse_samples,
    search_for,
)
from ragweave.nodes.self_ask_prompts import EXAMPLES
from ragweave.nodes.self_ask_reply import SelfAskReply, parse_self_ask, read_final
from ragweave.nodes.step import Step, Work, pure
from ragweave.state import Hop, Update
from ragweave.tools.models import Models
from ragweave.tools.text.echo import PromptParts
from ragweave.tools.text.unknown import UNKNOWN, is_unknown
from ragweave.tools.text.untrusted import one_line

NAME = "self_ask"

_STEPS = 5
"""Supersteps from this call through a follow-up to the last call's end."""


@dataclass(frozen=True, kw_only=True)
class SelfAskOptions(RoundOptions):
    """Options of `self_ask`."""

    stop_sequences: bool = True
    """Whether to send stop sequences; some reasoning models refuse them, and none is needed."""

    reader: bool = True
    """Whether a call of its own reads what a follow-up found (SlimPLM, appendix B); else the
    passages themselves stand as the intermediate answer (Press et al. 2022: the search's text)."""

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        refuse_samples(self, NAME)


def self_ask_step(
    models: Models, templates: Templates, options: SelfAskOptions
) -> Step[SelfAskOptions]:
    """Return the node `self_ask`: one call of the chain.

    It starts a search for the follow-up that the model asks, or ends the run with its final
    answer. After the last round the prompt itself says "So the final answer is:". A first reply
    that says Unknown, or nothing readable, makes the question itself the follow-up: the papers
    are silent there, and nothing has been looked up yet.
    """

    def prompt(state: Mapping[str, Any], opts: SelfAskOptions) -> Prompt:
        return chain_prompt(state, opts, templates["self_ask"])

    def body(state: Mapping[str, Any], opts: SelfAskOptions, config: RunnableConfig) -> Work:
        def update(now: Mapping[str, Any], _opts: SelfAskOptions, reply: Reply) -> Update:
            return chain_update(now, opts, reply, config)

        question = Ask[SelfAskOptions](name=NAME, role="answer", prompt=prompt, update=update)
        return (yield from ask(question, models, state, opts, config))

    return Step(NAME, body, options)


def chain_prompt(
    state: Mapping[str, Any], options: SelfAskOptions, template: ChatPromptTemplate
) -> Prompt:
    """Ask for the next line of the dialogue; what was asked so far stands in the passages' place.

    Intermediate answers count as passages, so that a dialogue that is too long loses some.
    """
    last = is_last(state, options)

    def render(kept: Sequence[Document]) -> str:
        return dialogue(kept, last=last)

    return Prompt(
        template,
        {"task": "step", "question": state["question"], "answer_type": state["answer_kind"]},
        {"question": state["question"]},
        [_as_document(hop, at) for at, hop in enumerate(state["hops"])],
        {"stop": ["\nIntermediate answer:"]} if options.stop_sequences and not last else {},
        render,
    )


def is_last(state: Mapping[str, Any], options: SelfAskOptions) -> bool:
    """Say whether no further follow-up may be asked."""
    return len(state["hops"]) >= options.rounds or state["remaining_steps"] < _STEPS


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


def chain_update(
    state: Mapping[str, Any], options: SelfAskOptions, reply: Reply, config: RunnableConfig
) -> Update:
    """Start the search that the reply asks for, or end with its answer."""
    hops: list[Hop] = state["hops"]
    last = is_last(state, options)
    seen = "\n".join(hop["result"] for hop in hops)
    parts = PromptParts(state["question"], EXAMPLES, seen)
    if last:
        read = read_final(reply.text, state["answer_kind"], parts)
        said = SelfAskReply("final", read.answer, read.rejected)
    else:
        said = parse_self_ask(reply.text, state["answer_kind"], parts, first=not hops)
    query = _to_look_up(said, "" if hops or last else state["question"])
    notes = []
    asks_on = last and said.text in ("", UNKNOWN) and not is_unknown(reply.text)
    if said.rejected:
        notes = [rejected(config, NAME, said.rejected)]
    elif said.kind == "unreadable" or asks_on:
        notes = [note(config, NAME, "step_unparsed")]
    elif said.kind == "final" and query:
        notes = [note(config, NAME, "unknown_before_search")]
    if query:
        key = f"round_{len(hops)}"
        hop: Hop = {"key": key, "thought": "", "query": query, "result": ""}
        return {"hops": [*hops, hop], "notes": notes, **search_for(state, key, query)}
    end = ended(
        state,
        options,
        pool=NAME,
        answer=said.text or UNKNOWN,
        reply=reply.text,
        keys=[hop["key"] for hop in hops],
        read=state["read"],
        truncated=limit_ended(said.text or UNKNOWN, last=last, early=len(hops) < options.rounds),
    )
    return {**end, "notes": notes}


def _to_look_up(said: SelfAskReply, otherwise: str) -> str:
    """Return the follow-up; `otherwise` where there is neither one nor an answer."""
    if said.kind == "follow_up":
        return said.text
    return otherwise if said.text in ("", UNKNOWN) else ""


def read_step(
    models: Models, templates: Templates, options: SelfAskOptions
) -> Step[SelfAskOptions]:
    """Return the node `read`: reads the follow-up's passages into an intermediate answer."""

    def prompt(state: Mapping[str, Any], _opts: SelfAskOptions) -> Prompt:
        asked = state["hops"][-1]["query"]
        return Prompt(
            templates["self_ask_reader"],
            {"task": "answer", "question": asked, "answer_type": "long"},
            {"question": asked},
            state["passages"],
        )

    question = Ask[SelfAskOptions](name="read", role="answer", prompt=prompt, update=read_update)

    def body(state: Mapping[str, Any], opts: SelfAskOptions, config: RunnableConfig) -> Work:
        if not state["passages"]:
            return (yield from pure(read_update(state, opts, Reply("", []))))
        if not opts.reader:
            return (yield from pure(unread_update(state)))
        return (yield from ask(question, models, state, opts, config))

    return Step("read", body, options)


def read_update(state: Mapping[str, Any], _options: SelfAskOptions, reply: Reply) -> Update:
    """Add the intermediate answer to the dialogue; Unknown where nothing was found or said."""
    *before, hop = state["hops"]
    answer = " ".join(parse_answer(reply.text, "long").split())
    return {
        "hops": [*before, {**hop, "result": answer}],
        "round": len(state["hops"]),
        "read": [*state["read"], *ids_of(reply.passages)],
    }


def unread_update(state: Mapping[str, Any]) -> Update:
    """Add the passages that a follow-up found to the dialogue as they are."""
    *before, hop = state["hops"]
    found = " ".join(one_line(doc.page_content) for doc in state["passages"])
    return {
        "hops": [*before, {**hop, "result": found}],
        "round": len(state["hops"]),
        "read": [*state["read"], *ids_of(state["passages"])],
    }
