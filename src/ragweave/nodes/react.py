"""The step of ReAct: think, then search or finish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig

from ragweave.nodes.ask import Ask, Reply, ask
from ragweave.nodes.notes import note, rejected
from ragweave.nodes.options import Options, at_least
from ragweave.nodes.prompt import Prompt, Templates
from ragweave.nodes.react_prompts import EXAMPLES
from ragweave.nodes.react_reply import last_answer, parse_react, read_last
from ragweave.nodes.replies import bare_text
from ragweave.nodes.rounds import all_found, ended, made_to_end, refuse_samples, search_for
from ragweave.nodes.step import Step, Work
from ragweave.state import AnswerType, Hop, Update
from ragweave.state.passages import INPUT
from ragweave.tools.models import Models
from ragweave.tools.text.echo import PromptParts
from ragweave.tools.text.normalize import normalize_answer
from ragweave.tools.text.unknown import UNKNOWN, is_unknown
from ragweave.tools.text.untrusted import one_line, render_passages

NAME = "react"

NO_ACTION = "No action was read. Write Search or Finish, and behind it square brackets."
REPEATED = (
    "{query} was searched before. Read the observations above; then search for something else, "
    "or write Finish with the answer in square brackets."
)
"""What is observed of a search that was made already."""

_STEPS = 4
"""Supersteps from this call through a search to the last call's end."""


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


def react_step(models: Models, templates: Templates, options: ReactOptions) -> Step[ReactOptions]:
    """Return the node `react`: one thought and action.

    A search starts the next retrieval, Finish ends the run. A reply without a readable action is
    kept as a thought, and the model is told to name one; a search that was made before is not made
    again, and the model is told so. Where the first reply has no action, or
    finishes with Unknown, the question itself is looked up: nothing has been observed yet.
    """

    def prompt(state: Mapping[str, Any], opts: ReactOptions) -> Prompt:
        return react_prompt(state, opts, templates["react"])

    def body(state: Mapping[str, Any], opts: ReactOptions, config: RunnableConfig) -> Work:
        def update(now: Mapping[str, Any], _opts: ReactOptions, reply: Reply) -> Update:
            return react_update(now, opts, reply, config)

        question = Ask[ReactOptions](name=NAME, role="answer", prompt=prompt, update=update)
        return (yield from ask(question, models, state, opts, config))

    return Step(NAME, body, options)


def is_last(state: Mapping[str, Any], options: ReactOptions) -> bool:
    """Say whether this call must finish."""
    return len(state["hops"]) + 1 >= options.max_steps or state["remaining_steps"] < _STEPS


def react_prompt(
    state: Mapping[str, Any], options: ReactOptions, template: ChatPromptTemplate
) -> Prompt:
    """Ask for the next thought and action, behind all that was observed so far."""
    hops: list[Hop] = state["hops"]
    last = is_last(state, options)

    def render(kept: Sequence[Document]) -> str:
        return transcript(hops, kept, last=last)

    return Prompt(
        template,
        {"task": "step", "question": state["question"], "answer_type": state["answer_kind"]},
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
        blocks.append(
            "No search is left: write Finish with the answer in square brackets, or Finish[Unknown]."
        )
    return "\n".join([*blocks, f"Thought {len(hops) + 1}:"])


def _block(number: int, hop: Hop, seen: Sequence[Document]) -> str:
    thought = one_line(hop["thought"])
    lines = [f"Thought {number}: {thought}"] if thought else []
    if hop["query"]:
        found = "\n" + render_passages(seen) if seen else " Nothing new was found."
        lines.append(f"Action {number}: Search[{one_line(hop['query'])}]")
        lines.append(f"Observation {number}:{found}")
    else:
        told = hop["result"] or NO_ACTION
        lines.append(f"Observation {number}: {told}")
    return "\n".join(lines)


def react_update(
    state: Mapping[str, Any], options: ReactOptions, reply: Reply, config: RunnableConfig
) -> Update:
    """Start the search that the reply asks for, or end with its answer."""
    hops: list[Hop] = state["hops"]
    last = is_last(state, options)
    parts = PromptParts(state["question"], EXAMPLES, _observed(state, hops, options))
    if last:
        said = read_last(reply.text, state["answer_kind"], parts)
    else:
        said = parse_react(reply.text, state["answer_kind"], parts, observed=bool(_searched(hops)))
    refused = [rejected(config, NAME, said.rejected)] if said.rejected else []
    gives_up = said.action == "finish" and said.argument == UNKNOWN and not hops and not last
    if said.action == "finish" and not gives_up:
        end = ended(
            state,
            options,
            pool=NAME,
            answer=said.argument,
            reply=reply.text,
            keys=_searched(hops),
            stopped=made_to_end(said.argument, last=last, early=len(hops) + 1 < options.max_steps),
        )
        event = _no_finish(reply.text, state["answer_kind"]) if last and not refused else ""
        return {**end, "notes": [note(config, NAME, event)] if event else refused}
    query = said.argument if said.action == "search" else "" if hops else state["question"]
    repeated = bool(query) and _asked(query) in {_asked(hop["query"]) for hop in hops}
    event = {"search": "", "none": "step_unparsed", "finish": "unknown_before_search"}[said.action]
    event = "search_repeated" if repeated else "" if refused else event
    hop: Hop = {
        "key": f"round_{len(hops)}",
        "thought": "" if gives_up else said.thought,
        "query": "" if repeated else query,
        "result": REPEATED.format(query=one_line(query)) if repeated else "",
    }
    update: Update = {
        "hops": [*hops, hop],
        "round": len(hops) + 1,
        "notes": [*refused, *([note(config, NAME, event)] if event else [])],
    }
    return {**update, **search_for(state, hop["key"], hop["query"])} if hop["query"] else update


def _observed(state: Mapping[str, Any], hops: Sequence[Hop], options: ReactOptions) -> str:
    """Return the text of all that was found so far."""
    found = all_found(state, _searched(hops), options.order)
    return "\n".join(f"{doc.metadata.get('title') or ''} {doc.page_content}" for doc in found)


def _asked(query: str) -> str:
    return normalize_answer(query) or query


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
