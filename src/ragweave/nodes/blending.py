"""BlendFilter's options, and the routes between its steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ragweave.errors import UsageError
from ragweave.nodes.knowledge_filter import filter_branches
from ragweave.nodes.options import Options, at_least
from ragweave.nodes.retrieve import searches
from ragweave.nodes.step import Goto
from ragweave.nodes.widen import expand_query
from ragweave.state import AnswerType, RAGState

QueryKind = Literal["question", "external", "internal"]
_KINDS: tuple[QueryKind, ...] = ("question", "external", "internal")


@dataclass(frozen=True, kw_only=True)
class BlendingOptions(Options):
    """Options of query blending and knowledge filtering."""

    queries: tuple[QueryKind, ...] = _KINDS
    """Which queries are blended: the question itself, the question behind a reasoning over
    retrieved knowledge (external), behind the model's own knowledge (internal)."""
    hops: int = 1
    """External augmentations in a row; the paper stops at one, a two-hop step (remark 1)."""
    knowledge_filter: bool = True
    """Whether the model itself drops the passages that don't bear on the question."""
    shots: int = 3
    """Examples in the reasoning prompts, 0 to 3 (appendix: three)."""
    profile: Literal["multi_hop", "strategyqa"] = "multi_hop"
    """Prompts for HotPotQA and 2WikiMultihopQA, or for the Yes/No questions of StrategyQA."""

    @property
    def default_answer_type(self) -> AnswerType:
        """Yes or No under the StrategyQA profile."""
        return "yes_no" if self.profile == "strategyqa" else self.answer_type

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is out of its range.
        """
        super().__post_init__()
        object.__setattr__(self, "queries", tuple(one for one in _KINDS if one in self.queries))
        at_least("hops", self.hops, 1)
        at_least("shots", self.shots, 0)
        if self.shots > 3:
            raise UsageError(f"shots must be 0 to 3, not {self.shots}")


def to_first_search(state: RAGState, options: BlendingOptions) -> Goto:
    """Route: the question is retrieved, once, where its own set or the external one needs it."""
    wanted = {"question", "external"} & set(options.queries) or len(state["queries"]) > 1
    if state["passages"] or not wanted:
        return "nothing to retrieve"
    return searches(state, state["queries"])


def to_augmentation(state: RAGState, options: BlendingOptions) -> list[str]:
    """Route: what the model is asked side by side before the blended search.

    The topic serves the filter alone: where the first search found nothing it is not asked for.
    """
    asked: list[str] = [one for one in options.queries if one != "question"]
    if state["passages"]:
        asked = []
    found = state["passages"] or not state["retrieved"] or any(state["retrieved"].values())
    if options.knowledge_filter and options.profile == "multi_hop" and found:
        asked.append("topic")
    return asked or ["blend"]


def written_now(state: RAGState) -> list[str]:
    """Return the augmented queries of this hop: in later hops that is the external one."""
    keys = ("external",) if state["hop"] > 1 else ("external", "internal")
    return [key for key in keys if key in state["augmented"]]


def to_blended_search(state: RAGState, _options: BlendingOptions) -> Goto:
    """Route: this hop's queries; one that says nothing new has found what it can."""
    queries, question = state["queries"], state["question"]
    keys = [key for key in written_now(state) if key in queries]
    new = {
        key: queries[key]
        for key in keys
        if key not in state["retrieved"]
        or expand_query(question, state["augmented"][key])[0] != question
    }
    return searches(state, new, "search") or "nothing new"


def to_knowledge_filter(state: RAGState, options: BlendingOptions) -> Goto:
    """Route: another external hop, else a filter dialogue for each query's set."""
    if 0 < state["hop"] < options.hops and "external" in state["queries"]:
        return "next hop"
    if not options.knowledge_filter:
        return "no filter"
    return filter_branches(state, "knowledge_filter") or "no filter"
