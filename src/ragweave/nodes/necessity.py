"""SlimPLM's options, and the routes that decide when and what to retrieve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from langgraph.types import Send

from ragweave.errors import UsageError
from ragweave.nodes.answer import branches
from ragweave.nodes.options import Options, at_least, current
from ragweave.nodes.step import Goto
from ragweave.state import ClaimBranch, RAGState


@dataclass(frozen=True, kw_only=True)
class NecessityOptions(Options):
    """Options of the slim proxy's part."""

    question_judge: bool = True
    """Whether a judge decides from the draft answer that retrieval is needed at all."""
    rewrite: bool = True
    """Whether the draft answer is rewritten into claims and queries."""
    claim_filter: bool = True
    """Whether the judge drops the queries of claims that are known."""
    max_claims: int = 20
    """Most claims of one draft that are judged and searched; the paper sets no limit."""
    max_rewrites: int = 20
    """Most rewrites of the question itself that are searched; the paper sets no limit."""
    proxy_profile: Literal["instruct", "released"] = "instruct"
    """Prompts for any chat model, or for the authors' fine-tuned judge and rewriter."""
    margin: float = 0.0
    """Where the judge is read by score: log-probability by which Known(True) must lead."""
    proxy_temperature: float | None = 0.01
    """Temperature of the draft answer (released code); None leaves it to the model."""
    proxy_top_p: float | None = 0.85
    """Nucleus of the draft answer (released code); None leaves it to the model."""
    proxy_tokens: int | None = 512
    """Most tokens of the draft answer (released code); None leaves it to the model."""

    @property
    def drafts(self) -> bool:
        """Whether any part needs the proxy's draft answer."""
        return self.question_judge or self.rewrite

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is out of its range.
        """
        super().__post_init__()
        at_least("max_claims", self.max_claims, 1)
        at_least("max_rewrites", self.max_rewrites, 1)
        at_least("proxy_tokens", self.proxy_tokens, 1)
        if self.proxy_temperature is not None and not 0 <= self.proxy_temperature <= 2:
            raise UsageError(f"proxy_temperature must be 0 to 2, not {self.proxy_temperature}")
        if self.proxy_top_p is not None and not 0 < self.proxy_top_p <= 1:
            raise UsageError(f"proxy_top_p must be above 0, up to 1, not {self.proxy_top_p}")


def to_draft(state: RAGState, options: NecessityOptions) -> str:
    """Route: a draft answer where judge or rewriter needs it; given passages need neither."""
    if state["passages"]:
        return "passages given"
    return "draft" if options.drafts else "no proxy"


def to_judge(state: RAGState, options: NecessityOptions) -> str:
    """Route: the draft is judged, else rewritten; without one the question alone is searched."""
    if not state["heuristic_answer"]:
        return "no draft"
    return "judge" if options.question_judge else "rewrite"


def to_rewrite(state: RAGState, options: NecessityOptions) -> Goto:
    """Route: what is known is answered without passages; anything else is searched for."""
    if state["known"]:
        return branches(state, "direct", options, contexts=[[]])
    return "not known" if options.rewrite else "not rewritten"


def without_verdict(options: NecessityOptions) -> Callable[[], str]:
    """Return what names the node behind a failed judge: what is not judged is not known.

    Args:
        options: The build's options; those in force decide.
    """
    return lambda: "rewrite" if current(options).rewrite else "plan"


def to_claim_filter(state: RAGState, options: NecessityOptions) -> Goto:
    """Route: the judge once for each claim."""
    if not options.claim_filter or not state["claims"]:
        return "no claim to judge"
    return [
        Send("judge_claim", ClaimBranch(**one, deadline=state.get("deadline")))
        for one in state["claims"]
    ]
