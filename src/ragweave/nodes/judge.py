"""The retrieval necessity judge: is a draft answer, or a claim of it, known well enough?

Source: SlimPLM, section 3.2, and 3.3 for claims: the same judge, with the claim in the place of the
answer and its query in the place of the question. Where the judge gives log-probabilities, it is
read by the margin of `<Known(True)>` over `<Known(False)>`, as the released code does; otherwise
by its text. A local chat model is scored only under the released prompts, whose marks are known. A
verdict that can't be read counts as not known: retrieve.

The options of the slim proxy's part, and the routes that follow from a verdict, stand here too.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableLambda
from langgraph.types import Send

from ragweave.errors import UsageError
from ragweave.nodes.answer import branches
from ragweave.nodes.ask import Prompt, Question, Templates, reply_to
from ragweave.nodes.options import at_least, current
from ragweave.nodes.profile import Paper
from ragweave.nodes.reply_form import VERDICT_TOKENS, Choice
from ragweave.nodes.scoring import scoring_usage
from ragweave.nodes.step import Call, Context, Goto, StateT, Step, Work
from ragweave.nodes.uncertainty_gate import GateOptions
from ragweave.nodes.wording import worded
from ragweave.state import ClaimBranch, RAGState, Update
from ragweave.tools.bindings import unbound
from ragweave.tools.claims import parse_judgement
from ragweave.tools.models import ChatModel, Models, Role
from ragweave.tools.models.tasks import Task
from ragweave.tools.models.uncertainty import Gate
from ragweave.tools.scorers.specs import LogprobScorer, ascore
from ragweave.tools.text.unknown import knows_nothing
from ragweave.tools.text.untrusted import untrusted
from ragweave.trained.card import check_router
from ragweave.trained.chat import PartChat


def scorer_of(model: ChatModel, *, local: bool = True) -> LogprobScorer | None:
    """Return what scores continuations with the weights of `model`, or None.

    Scorers take plain text: they know no chat template.

    Args:
        model: A chat model; one that has a `score` method is its own scorer.
        local: Whether a local GGUF model shares its weights with a scorer.
    """
    target = unbound(model)
    if isinstance(target, LogprobScorer):
        return target
    if not local or "ragweave.tools.models.llamacpp" not in sys.modules:
        return None
    from ragweave.tools.models.llamacpp import LlamaCppChat
    from ragweave.tools.models.llamacpp_scorer import LlamaCppScorer

    return LlamaCppScorer(target) if isinstance(target, LlamaCppChat) else None


@dataclass(frozen=True, kw_only=True)
class NecessityOptions(GateOptions):
    """Options of the slim proxy's part."""

    question_judge: bool = True
    """Whether a judge decides from the draft answer that retrieval is needed at all."""
    rewrite: bool = True
    """Whether the draft answer is rewritten into claims and queries."""
    claim_filter: bool = True
    """Whether the judge drops the queries of claims that are known."""
    second_look: bool = True
    """Whether what was judged known, and then answered Unknown, is searched for after all; the
    paper stops there."""
    max_claims: int = 20
    """Most claims of one draft that are judged and searched; the paper sets no limit."""
    max_rewrites: int = 20
    """Most rewrites of the question itself that are searched; the paper sets no limit."""
    proxy_profile: Literal["instruct", "released"] = "instruct"
    """Prompts for any chat model, or for the authors' fine-tuned judge and rewriter."""
    route: Literal["judge", "uncertainty", "classifier"] = "judge"
    """Who decides from the draft: the judge (SlimPLM), the proxy's uncertainty (arXiv 2501.12835,
    2511.09803), or a router trained on outcomes (Adaptive-RAG)."""
    router: str = ""
    """Folder of the trained router, for `route=classifier`."""
    gate: Gate = "mean"
    """What is measured for `route=uncertainty`: of the proxy's log-probabilities `mean`, `least`,
    `entropy` or `margin`; of several drafts `variance` or `dissimilarity`."""
    route_threshold: float | None = None
    """For `route=uncertainty`, the uncertainty above which to retrieve, None: a round number; for
    `route=classifier`, what a dearer route must add to the probability of a right answer, None:
    what the router's training chose."""
    margin: float = 0.0
    """Where the judge is read by score: log-probability by which Known(True) must lead."""
    proxy_temperature: float | None = 0.01
    """Temperature of the draft answer (released code); None leaves it to the model."""
    proxy_top_p: float | None = 0.85
    """Nucleus of the draft answer (released code); None leaves it to the model."""
    proxy_tokens: int | None = 512
    """Most tokens of the draft answer (released code); None leaves it to the model. Unless it is
    set, the draft of a short answer has 256 at most, but under a paper's profile."""

    @property
    def gate_role(self) -> Role | None:
        """The proxy, where its uncertainty decides."""
        return "proxy" if self.question_judge and self.route == "uncertainty" else None

    @property
    def most_uncertain(self) -> float:
        """The uncertainty above which to retrieve."""
        chosen = self.route_threshold
        return super().most_uncertain if chosen is None else chosen

    @property
    def drafts(self) -> bool:
        """Whether any part needs the proxy's draft answer."""
        return self.question_judge or self.rewrite

    @property
    def small_roles(self) -> list[Role]:
        """The roles of small models in which a model may be asked."""
        judges = self.question_judge and self.route == "judge"
        asked: dict[Role, bool] = {
            "proxy": self.drafts or self.gate_role is not None,
            "judge": judges or (self.rewrite and self.claim_filter),
            "rewrite": self.rewrite,
        }
        return [role for role, may in asked.items() if may]

    @property
    def own_paper(self) -> Paper:
        """SlimPLM."""
        return "slimplm"

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is out of its range.
        """
        super().__post_init__()
        if self.route == "classifier":
            check_router(self.router)
        elif self.router:
            raise UsageError("a router decides nothing unless route=classifier")
        if self.route_threshold is not None and self.route == "judge":
            raise UsageError("route_threshold needs route=uncertainty or route=classifier")
        at_least("max_claims", self.max_claims, 1)
        at_least("max_rewrites", self.max_rewrites, 1)
        at_least("proxy_tokens", self.proxy_tokens, 1)
        if self.proxy_temperature is not None and not 0 <= self.proxy_temperature <= 2:
            raise UsageError(
                f"proxy_temperature must be between 0 and 2, not {self.proxy_temperature}"
            )
        if self.proxy_top_p is not None and not 0 < self.proxy_top_p <= 1:
            raise UsageError(f"proxy_top_p must be above 0 and at most 1, not {self.proxy_top_p}")


def to_draft(state: RAGState, options: NecessityOptions) -> str:
    """Route: a draft answer where judge or rewriter needs it; given passages need neither."""
    if state["passages"]:
        return "passages given"
    return "draft" if options.drafts else "no proxy"


def declines(draft: str, options: NecessityOptions, reader: ChatModel) -> bool:
    """Say whether a draft says nothing that `reader` could judge or split into claims.

    The paper's prompts, and models that were trained for the task, get such a draft as it is: they
    were trained on refusals too.
    """
    ours = not options.paper and options.proxy_profile == "instruct"
    return ours and not isinstance(unbound(reader), PartChat) and knows_nothing(draft)


def to_judge(state: RAGState, options: NecessityOptions) -> str:
    """Route: the draft is judged, else rewritten; without one the question alone is searched.

    What the draft's node called unknown, a refusal, is not judged.
    """
    if not state["heuristic_answer"]:
        return "no draft"
    if state["known"] is False:
        return "rewrite" if options.rewrite else "no draft"
    return "judge" if options.question_judge else "rewrite"


def to_rewrite(state: RAGState, options: NecessityOptions) -> Goto:
    """Route: what is known is answered without passages; anything else is searched for."""
    if state["known"]:
        return branches(state, "direct", options, contexts=[[]])
    if state["route"] == "one":  # the question alone is searched
        return "not rewritten"
    return "not known" if options.rewrite else "not rewritten"


def looks_again(_state: RAGState, options: NecessityOptions) -> bool:
    """Say whether a verdict of known that the direct answer belies counts as not known."""
    return options.second_look


def to_second_look(_state: RAGState, options: NecessityOptions) -> str:
    """Route: a verdict of known that the direct answer belies counts as not known."""
    return "not known" if options.rewrite else "not rewritten"


def without_verdict(options: NecessityOptions) -> Callable[[], str]:
    """Return what names the node behind a failed judge: what is not judged is not known.

    Args:
        options: The build's options; those in force decide.
    """
    return lambda: "rewrite" if current(options).rewrite else "plan"


def to_claim_filter(state: RAGState, options: NecessityOptions) -> Goto:
    """Route: the judge once for each claim.

    Not where its verdict on the whole draft was belied: it would call the claims known as well.
    """
    belied = state.get("known") and options.route == "judge"
    if not options.claim_filter or not state["claims"] or belied:
        return "no claim to judge"
    return [
        Send("judge_claim", ClaimBranch(**one, deadline=state.get("deadline")))
        for one in state["claims"]
    ]


VERDICTS = ("<Known(True)>", "<Known(False)>")

JudgeNode = Literal["judge", "judge_claim"]


def judge_step(
    models: Models,
    templates: Templates,
    options: NecessityOptions,
    scorer: LogprobScorer | None = None,
) -> Step[RAGState, NecessityOptions]:
    """Return the node `judge`: judges the draft answer, sets `known`."""

    def prompt(state: RAGState, opts: NecessityOptions) -> Prompt:
        return judge_prompt(state["question"], state["heuristic_answer"], opts, templates)

    def write(_state: RAGState, known: bool) -> Update:
        return {"known": known}

    question = Question(name="judge", role="judge", prompt=prompt)
    return _step(question, models, options, scorer, write)


def judge_claim_step(
    models: Models,
    templates: Templates,
    options: NecessityOptions,
    scorer: LogprobScorer | None = None,
) -> Step[ClaimBranch, NecessityOptions]:
    """Return the node `judge_claim`: judges one claim by its query, writes `verdicts[key]`."""

    def prompt(branch: ClaimBranch, opts: NecessityOptions) -> Prompt:
        return judge_prompt(branch["query"], branch["claim"], opts, templates)

    def write(branch: ClaimBranch, known: bool) -> Update:
        return {"verdicts": {branch["key"]: known}}

    question = Question(name="judge_claim", role="judge", prompt=prompt)
    return _step(question, models, options, scorer, write)


def _step(
    question: Question[StateT, NecessityOptions],
    models: Models,
    options: NecessityOptions,
    scorer: LogprobScorer | None,
    write: Callable[[StateT, bool], Update],
) -> Step[StateT, NecessityOptions]:
    judge = models.by_role("judge")

    def body(state: StateT, context: Context[NecessityOptions]) -> Work:
        scores = scorer or scorer_of(judge, local=context.options.proxy_profile == "released")
        if scores is not None:
            prompt = question.prompt(state, context.options)
            return write(state, (yield from _by_margin(scores, prompt, context)))
        reply = yield from reply_to(question, models, state, context)
        if context.options.margin:
            context.note("margin_unread")
        known = parse_judgement(reply.text)
        if known is None:
            context.note("judge_unparsed")
        return write(state, bool(known))

    return Step(question.name, body, options)


def judge_prompt(
    question: str, draft: str, options: NecessityOptions, templates: Templates
) -> Prompt:
    """Ask whether a draft answers a question, or a claim its query."""
    task: Task = {"task": "judge", "question": question, "draft": draft}
    name = "judge_released" if options.proxy_profile == "released" else "judge"
    values = {"question": question, "draft": untrusted(draft)}
    return Prompt(
        worded(templates, name, options, answers=False),
        task,
        values,
        form=lambda _shown: Choice(VERDICTS),
        reply_tokens=VERDICT_TOKENS,
    )


def _by_margin(
    scorer: LogprobScorer, prompt: Prompt, context: Context[NecessityOptions]
) -> Generator[Call, Any, bool]:
    text = scored_text(prompt.messages([]), context.options.proxy_profile)
    score = RunnableLambda(scorer.score, afunc=functools.partial(ascore, scorer))
    pairs = [(text, verdict) for verdict in VERDICTS]
    known, unknown = yield Call(score, pairs)
    context.spend(scoring_usage("judge", context.node, pairs))
    return bool(known - unknown > context.options.margin)


def scored_text(messages: Sequence[BaseMessage], profile: str) -> str:
    """Return the text whose continuation is scored; the released models take Llama 2's marks."""
    texts = [message.text for message in messages]
    if profile == "released":
        return f"[INST] <<SYS>>\n{texts[0]} <</SYS>>\n {texts[-1]} [/INST]"
    return "\n\n".join(texts) + "\n\n"
