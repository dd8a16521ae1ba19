"""The step of ReAct: think, then search or finish."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate

from ragweave.nodes.ask import Ask, Reply
from ragweave.nodes.options import Options, at_least
from ragweave.nodes.prompt import Prompt, Templates
from ragweave.nodes.react_reply import ReactReply, last_answer, parse_react
from ragweave.nodes.replies import bare_text
from ragweave.nodes.rounds import (
    Loop,
    all_found,
    conclude_chain,
    ids_of,
    limit_ended,
    refuse_samples,
    round_key,
    search_for,
)
from ragweave.nodes.step import Context, Step
from ragweave.state import AnswerType, Hop, RAGState, Update
from ragweave.state.passages import INPUT
from ragweave.tools.models import Models
from ragweave.tools.text.unknown import UNKNOWN, is_unknown
from ragweave.tools.text.untrusted import one_line, render_passages

NAME = "react"

LOOP = Loop(node=NAME, round=("retrieve", "collect"))


@dataclass(frozen=True, kw_only=True)
class ReactOptions(Options):
    """Options of `react`."""

    max_steps: int = 7
    """Most calls; the last one must finish (Yao et al. 2022, section 3.2: 7 for HotpotQA)."""
    stop_sequences: bool = True
    """Whether to send stop sequences; some reasoning models refuse them, and none is needed."""

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        at_least("max_steps", self.max_steps, 1)
        refuse_samples(self, NAME)


def react_step(
    models: Models, templates: Templates, options: ReactOptions
) -> Step[RAGState, ReactOptions]:
    """Return the node `react`: one thought and action.

    A search starts the next retrieval, Finish ends the run. A reply without a readable action is
    kept as a thought, and the model is told to name one. Where the first reply has no action, or
    finishes with Unknown, the question itself is looked up: nothing has been observed yet.
    """

    def prompt(state: RAGState, opts: ReactOptions) -> Prompt:
        return react_prompt(state, opts, templates["react"])

    question = Ask[RAGState, ReactOptions](
        name=NAME, role="answer", prompt=prompt, update=react_update
    )
    return question.step(models, options)


def is_last(state: RAGState, options: ReactOptions) -> bool:
    """Say whether this call must finish."""
    return LOOP.is_last(state, done=len(state["hops"]) + 1, most=options.max_steps)


def react_prompt(state: RAGState, options: ReactOptions, template: ChatPromptTemplate) -> Prompt:
    """Ask for the next thought and action, behind all that was observed so far."""
    hops = state["hops"]
    last = is_last(state, options)

    def render(kept: Sequence[Document]) -> str:
        return transcript(hops, kept, last=last)

    return Prompt(
        template,
        {
            "task": "step",
            "question": state["question"],
            "answer_type": state["resolved_answer_type"],
        },
        {"question": state["question"]},
        all_found(state, _searched(hops), options.order),
        {"stop": ["\nObservation"]} if options.stop_sequences else {},
        render,
    )


def transcript(hops: Sequence[Hop], passages: Sequence[Document], *, last: bool) -> str:
    """Write thoughts, actions and observations, and the start of the next thought.

    A passage stands in the observation of the first search that found it. Passages that the caller
    gave are what the first search observes.
    """
    blocks: list[str] = []
    first = next(iter(_searched(hops)), "")
    for number, hop in enumerate(hops, start=1):
        names = {hop["key"], INPUT} if hop["key"] == first else {hop["key"]}
        seen = [doc for doc in passages if doc.metadata.get("query") in names]
        blocks.append(_block(number, hop, seen))
    if last:
        blocks.append("No search is left: finish now with Finish[answer] or Finish[Unknown].")
    return "\n".join([*blocks, f"Thought {len(hops) + 1}:"])


def _block(number: int, hop: Hop, seen: Sequence[Document]) -> str:
    thought = one_line(hop["thought"])
    lines = [f"Thought {number}: {thought}"] if thought else []
    if hop["query"]:
        found = "\n" + render_passages(seen) if seen else " Nothing new was found."
        lines.append(f"Action {number}: Search[{one_line(hop['query'])}]")
        lines.append(f"Observation {number}:{found}")
    else:
        reminder = "No action was read. Write Search[text] or Finish[answer]."
        lines.append(f"Observation {number}: {reminder}")
    return "\n".join(lines)


def react_update(state: RAGState, reply: Reply, context: Context[ReactOptions]) -> Update:
    """Start the search that the reply asks for, or end with its answer."""
    hops, options, answer_type = state["hops"], context.options, state["resolved_answer_type"]
    last = is_last(state, options)
    if last:
        said = ReactReply("", "finish", last_answer(reply.text, answer_type))
    else:
        said = parse_react(reply.text, answer_type)
    gives_up = said.action == "finish" and said.argument == UNKNOWN and not hops and not last
    if said.action == "finish" and not gives_up:
        if event := _no_finish(reply.text, answer_type) if last else "":
            context.note(event)
        early = len(hops) + 1 < options.max_steps
        return conclude_chain(
            state,
            options,
            pool=NAME,
            answer=said.argument,
            reply=reply.text,
            keys=_searched(hops),
            read=ids_of(reply.passages),
            truncated=limit_ended(said.argument, last=last, early=early),
        )
    if said.action != "search":
        context.note("unknown_before_search" if gives_up else "step_unparsed")
    query = said.argument if said.action == "search" else "" if hops else state["question"]
    number = len(hops)
    hop: Hop = {
        "key": round_key(number),
        "thought": "" if gives_up else said.thought,
        "query": query,
        "result": "",
    }
    update: Update = {"hops": [*hops, hop], "round": number + 1}
    return {**update, **search_for(state, number, query)} if query else update


def _no_finish(reply: str, kind: AnswerType) -> str:
    """Return what to note of a last reply that gives no answer: why, or ""."""
    if last_answer(reply, kind) != UNKNOWN:
        return ""
    said = parse_react(reply, kind)
    if said.action == "search":
        return "search_refused"
    wordy = any(map(str.isalnum, bare_text(reply)))
    says_so = said.action == "finish" or (wordy and is_unknown(reply))
    return "" if says_so else "step_unparsed"


def _searched(hops: Sequence[Hop]) -> list[str]:
    return [hop["key"] for hop in hops if hop["query"]]
