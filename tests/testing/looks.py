"""A small sound method, and the same method with one thing wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.graph import END, START
from langgraph.types import Overwrite
from ragweave.graphs.frame import draft, finish
from ragweave.graphs.method import answer_prompts
from ragweave.nodes.rounds import RoundOptions
from ragweave.nodes.step import Route, Step, pure

from ragweave.errors import ModelError
from ragweave.graphs import CompiledGraph, Method, Parts
from ragweave.nodes.answer import AnswerStep, branches
from ragweave.nodes.begin import begin_step
from ragweave.nodes.retrieve import collect_step, retrieve_step, searches, to_retrieval
from ragweave.nodes.vote import vote_step

Update = dict[str, Any]
Change = Callable[[Mapping[str, Any], Update], Update]
"""From what a node was given and its update to the update that it gives instead."""


@dataclass(frozen=True, kw_only=True)
class LooksOptions(RoundOptions):
    """Options of `looks`."""

    rounds: int = 2


@dataclass(frozen=True, kw_only=True)
class TonedOptions(LooksOptions):
    """The same, and one that nothing reads."""

    tone: Literal["plain", "kind"] = "plain"


@dataclass(frozen=True, kw_only=True)
class HarshOptions(LooksOptions):
    """The same, and one whose only other value no run survives."""

    harsh: bool = False


class Changed(Runnable[Any, Any]):
    """A step whose update is changed behind it, in a sync run, an async one or both."""

    def __init__(self, step: Any, change: Change, ways: tuple[str, ...]) -> None:
        self.name = step.name
        self._step, self._change, self._ways = step, change, ways

    def invoke(self, given: Any, config: RunnableConfig | None = None, **_: Any) -> Update:
        update = self._step.invoke(given, config)
        return self._change(given, update) if "sync" in self._ways else update

    async def ainvoke(self, given: Any, config: RunnableConfig | None = None, **_: Any) -> Update:
        update = await self._step.ainvoke(given, config)
        return self._change(given, update) if "async" in self._ways else update


@dataclass(frozen=True, kw_only=True)
class Looks:
    """Asks over the passages, and again while the answer is Unknown, `rounds` times at most."""

    changes: Mapping[str, Change] = field(default_factory=dict)
    """What is wrong with a node, by its name."""
    ways: tuple[str, ...] = ("sync", "async")
    searches_always: bool = False
    deaf: bool = False
    """Whether how often it looks is settled when it is built."""
    own_prompts: bool = False

    def build(self, parts: Parts[Any]) -> CompiledGraph:
        options = parts.options
        answer = AnswerStep("answer", "distill", closed_template="direct")
        if self.own_prompts:
            parts = replace(parts, prompts=answer_prompts("distill", "direct"))
        begin = begin_step(options)

        def harsh(state: Any, context: Any) -> Any:
            if context.options.harsh:
                raise ModelError("too harsh")
            return begin.work(state, context)

        steps = {
            "begin": Step("begin", harsh, options) if hasattr(options, "harsh") else begin,
            "retrieve": retrieve_step(parts.retriever, options),
            "collect": collect_step(options),
            "answer": parts.answers(answer),
            "again": Step("again", again, options),
            "vote": vote_step("vote", "answer", options, truncated=cut),
        }

        def next_one(state: Mapping[str, Any], chosen: Any) -> str:
            return to_next(state, options if self.deaf else chosen)

        graph = draft(parts)
        for name, step in steps.items():
            change = self.changes.get(name)
            graph.add_node(name, step if change is None else Changed(step, change, self.ways))
        graph.add_edge(START, "begin")
        first = always if self.searches_always else to_retrieval
        graph.add_conditional_edges("begin", Route(first, options), ["retrieve", "collect"])
        graph.add_edge("retrieve", "collect")
        graph.add_conditional_edges("collect", Route(to_answer, options), ["answer"])
        graph.add_conditional_edges("answer", Route(next_one, options), {"again": "again", "done": "vote"})
        graph.add_conditional_edges("again", Route(to_answer, options), ["answer"])
        graph.add_edge("vote", END)
        return finish(graph, "looks", parts)


def always(state: Mapping[str, Any], _options: Any) -> Any:
    return searches(state, state["queries"])


def to_answer(state: Mapping[str, Any], options: Any) -> Any:
    hints = ["looked once"] if state["round"] else ["nothing yet"]
    return branches(
        state,
        "answer",
        options,
        contexts=[state["passages"]],
        hints=hints,
        round=state["round"],
    )


def to_next(state: Mapping[str, Any], options: Any) -> str:
    done = not cut(state, options) or state["round"] + 1 >= options.rounds
    return "done" if done or state["remaining_steps"] < 4 else "again"


def again(state: Mapping[str, Any], _context: Any) -> Any:
    return pure({"round": state["round"] + 1})


def cut(state: Mapping[str, Any], _options: Any) -> bool:
    return all(one["answer"] == "Unknown" for one in state["candidates"].values())


def looks(broken: Looks | None = None, **told: Any) -> Method:
    """Return the method, sound or broken, saying of itself what `told` says."""
    says: dict[str, Any] = {
        "name": "looks",
        "summary": "Asks again while the answer is Unknown.",
        "paper": "none",
        "best": "p",
        "worst": "2·rounds·p",
        "options": LooksOptions,
        "build": (broken or Looks()).build,
        "prompts": answer_prompts("distill", "direct"),
    }
    return Method(**{**says, **told})


# -- what can be wrong with it -----------------------------------------------------------------


def ends_with(**values: Any) -> Mapping[str, Change]:
    """Return a change of how the run ends."""
    return {"vote": lambda _state, update: {**update, **values}}


def forgets_a_passage(_state: Mapping[str, Any], update: Update) -> Update:
    return {**update, "passages": Overwrite(update["passages"].value[1:])}


def reorders(_state: Mapping[str, Any], update: Update) -> Update:
    return {**update, "passages": Overwrite(update["passages"].value[::-1])}


def misses_a_call(_state: Mapping[str, Any], update: Update) -> Update:
    return {name: value for name, value in update.items() if name != "usage"}


def counts_for_another(_state: Mapping[str, Any], update: Update) -> Update:
    if "usage" not in update:
        return update  # no passage fitted, and no call was made
    usage = update["usage"]
    return {**update, "usage": {**usage, "by_role": {"judge": usage["by_role"]["answer"]}}}


def keeps_candidates(state: Mapping[str, Any], update: Update) -> Update:
    kept = {name: value for name, value in update.items() if name != "candidates"}
    return kept if state.get("candidates") else update


def refuses_odd_replies(_state: Mapping[str, Any], update: Update) -> Update:
    (candidate,) = update["candidates"].values()
    if candidate["reply"] not in ("Ada Brenner", "Unknown"):
        raise ModelError("the reply can't be read")
    return update


def makes_an_answer_up(_state: Mapping[str, Any], update: Update) -> Update:
    ((key, one),) = update["candidates"].items()
    if one["reply"]:
        return update
    return {**update, "candidates": {key: {**one, "answer": "Ada Brenner"}}, "notes": []}
