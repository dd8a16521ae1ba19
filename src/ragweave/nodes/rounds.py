"""Rounds: what methods that go round in a loop share.

A loop is bounded twice: by an option of the method, and by LangGraph's recursion limit, which a
`Loop` sees coming (`remaining_steps`), so that a run ends with what it has and never in an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from langchain_core.documents import Document
from langgraph.types import Overwrite

from ragweave.errors import UsageError
from ragweave.nodes.options import Options, at_least
from ragweave.nodes.profile import Paper
from ragweave.nodes.retrieve import arranged
from ragweave.nodes.vote import conclude
from ragweave.state import Candidate, RAGState, Update
from ragweave.state.passages import by_query, told_apart
from ragweave.tools.text.unknown import UNKNOWN


@dataclass(frozen=True, kw_only=True)
class RoundOptions(Options):
    """Options of a method that retrieves round by round."""

    rounds: int = 3
    """Most retrieval rounds (SlimPLM, appendix B: three, for every method with rounds)."""

    @property
    def own_paper(self) -> Paper:
        """SlimPLM."""
        return "slimplm"

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        at_least("rounds", self.rounds, 1)


def refuse_samples(options: Options, method: str) -> None:
    """Raise `UsageError` where samples are asked of a method whose calls form one chain."""
    if options.samples > 1:
        raise UsageError(
            f"{method} takes no samples: its calls form one chain, each reading the last one's "
            f"reply; run the graph {options.samples} times instead"
        )


def refuse_answer_options(options: Options, method: str) -> None:
    """Raise `UsageError` where options of an answer step are set for a method that has none."""
    if options.sufficient_context:
        raise UsageError(
            "sufficient_context rates the passages before an answer is asked for, and "
            f"{method} has no such step: leave it out for {method}"
        )
    if options.wording != "method":
        raise UsageError(
            f"wording={options.wording} says what an answer step asks for, and {method} has no such "
            f"step: leave it out for {method}"
        )


def ids_of(passages: Iterable[Document]) -> list[str]:
    """Return the passages' ids."""
    return [doc.id or "" for doc in passages]


@dataclass(frozen=True, kw_only=True)
class Loop:
    """A loop in a method's wiring, by the names of its nodes."""

    node: str
    """The node that decides whether there is another round, itself or by the route behind it."""
    round: tuple[str, ...]
    """The nodes between one execution of it and the next, in order."""
    ending: tuple[str, ...] = ()
    """The nodes between its last execution and the end of the run."""

    @property
    def steps(self) -> int:
        """Supersteps that another round takes, from this execution to the end of the run."""
        return 1 + len(self.round) + 1 + len(self.ending)

    def is_last(self, state: RAGState, *, done: int, most: int) -> bool:
        """Say whether no further round may begin.

        Args:
            state: The state.
            done: How many rounds there were.
            most: The most that the method's options allow.
        """
        return done >= most or state["remaining_steps"] < self.steps


def round_key(number: int) -> str:
    """Return the name of a loop's query, by how many retrievals went before it.

    Where the first retrieval is for the question itself, its name is `question`, as everywhere.
    """
    return f"round_{number}"


def search_for(state: RAGState, number: int, text: str) -> Update:
    """Return the update that makes `text` the one query to retrieve for.

    What the round before found leaves `passages` (it stays in `retrieved`); passages that the
    caller gave stay, and are what every round finds.
    """
    update: Update = {"queries": {round_key(number): text}}
    if state["retrieved"]:
        update["passages"] = Overwrite([])
    return update


def all_found(state: RAGState, keys: Iterable[str], order: str) -> list[Document]:
    """Return what the queries named `keys` found, query by query, or the passages given.

    Args:
        state: The state.
        keys: Names of queries, in the order wanted; none: nothing was looked at.
        order: The order of each query's passages (the option `order`).
    """
    names = list(keys)
    found = told_apart(state["retrieved"])
    if names and not found:
        return list(state["passages"])
    return by_query([arranged(found.get(key, []), order) for key in names])


def limit_ended(answer: str, *, last: bool, early: bool) -> bool:
    """Say whether a limit ended a chain of calls, and not its own last reply.

    An answer to the last call that the method allows is the method's own end. No answer there is
    the limit's doing, and so is any end that the recursion limit brings before that call.

    Args:
        answer: The answer as parsed.
        last: Whether the model was told to finish.
        early: Whether the method's own limit allows for more calls.
    """
    return last and (early or answer == UNKNOWN)


def conclude_chain(
    state: RAGState,
    options: Options,
    *,
    pool: str,
    answer: str,
    reply: str,
    keys: Iterable[str],
    read: Iterable[str],
    truncated: bool,
) -> Update:
    """Return the update that ends a chain of calls with its one candidate.

    Args:
        state: The state.
        options: The options in force.
        pool: Name of the node that answered.
        answer: The answer as parsed.
        reply: What it was parsed from.
        keys: Names of the queries that were looked up for it.
        read: Ids of the passages that stood in the prompts behind the answer, in prompt order.
        truncated: Whether a limit ended the chain.
    """
    shown = list(dict.fromkeys(read))
    found = all_found(state, keys, options.order)
    passages = [doc for doc in found if doc.id in shown]
    candidate: Candidate = {
        "answer": answer,
        "reply": reply,
        "pool": pool,
        "round": state["round"],
        "rank": min((doc.metadata.get("rank", 0) for doc in passages), default=0),
        "sample": 0,
        "passages": shown,
    }
    read_state: RAGState = {**state, "passages": passages}
    end = conclude(read_state, answer, [candidate], options, truncated=truncated)
    return {**end, "candidates": {f"{pool}:0": candidate}}
