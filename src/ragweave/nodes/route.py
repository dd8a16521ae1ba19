"""How it is decided whether a draft is enough: by a judge, by uncertainty, or by a trained router.

* `route=judge`: the retrieval necessity judge (SlimPLM, section 3.2), as in `judge`.
* `route=uncertainty`: the proxy answers once more, shortly and with log-probabilities, and is
  taken to know what it is not uncertain of: the simple gates of arXiv 2501.12835 and of TARG
  (arXiv 2511.09803), which measures a prefix of about twenty tokens.
* `route=classifier`: a router that `ragweave train router` trained on outcomes chooses none, one
  or many rounds (Adaptive-RAG, Jeong et al. 2024, section 3.2). One round searches the question
  alone; many rounds rewrite, blend and search again, as the method's other options say.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from langchain_core.runnables import RunnableLambda

from ragweave.errors import UsageError
from ragweave.nodes.ask import Ask, Prompt, Reply, Templates, ask
from ragweave.nodes.judge import NecessityOptions, judge_step
from ragweave.nodes.step import Call, Context, Step, Work
from ragweave.nodes.wording import ANSWER_FORMS
from ragweave.state import RAGState, Update
from ragweave.tools.models import Models
from ragweave.tools.models.forms import gives_logprobs
from ragweave.tools.models.uncertainty import THRESHOLDS, gate_settings, uncertainty
from ragweave.tools.scorers.specs import LogprobScorer

if TYPE_CHECKING:
    from ragweave.trained.router import Routed

PREFIX_TOKENS = 20
"""Most tokens of the answer that the gate measures (TARG, section 3: a short prefix)."""


def check_gate(models: Models, options: object) -> None:
    """Check that the proxy reports log-probabilities where its uncertainty decides.

    Raises:
        UsageError: It does not.
    """
    if not isinstance(options, NecessityOptions) or options.route != "uncertainty":
        return
    model = models.by_role("proxy")
    if not gives_logprobs(model):
        kind = getattr(model, "_llm_type", type(model).__name__)
        raise UsageError(
            f"route=uncertainty needs the probability of each token, and the model {kind!r} "
            "reports none: take openai:NAME (any OpenAI-compatible server) or llamacpp:PATH"
        )


def decide_step(
    models: Models,
    templates: Templates,
    options: NecessityOptions,
    scorer: LogprobScorer | None = None,
) -> Step[RAGState, NecessityOptions]:
    """Return the node `judge`: sets `known`, and `route` where a router chose one."""
    judged = judge_step(models, templates, options, scorer)

    def body(state: RAGState, context: Context[NecessityOptions]) -> Work:
        match context.options.route:
            case "classifier":
                return _classified(state, context)
            case "uncertainty":
                return _gated(models, templates, state, context)
        return judged.work(state, context)

    return Step("judge", body, options)


def _classified(state: RAGState, context: Context[NecessityOptions]) -> Work:
    opts = context.options
    choose = functools.partial(_choose, opts.router, opts.route_threshold)
    pair = (state["question"], state["heuristic_answer"])
    found: Routed = yield Call(RunnableLambda(choose), pair)
    chances = {name: round(one, 4) for name, one in found.probabilities.items()}
    context.note("routed", route=found.route, probabilities=chances)
    return {"known": found.route == "none", "route": found.route}


def _choose(folder: str, threshold: float | None, pair: tuple[str, str]) -> Routed:
    from ragweave.trained.router import load_router  # numpy and an encoder: when one is asked

    return load_router(folder).choose(*pair, threshold)


def _gated(
    models: Models, templates: Templates, state: RAGState, context: Context[NecessityOptions]
) -> Work:
    question = Ask[RAGState, NecessityOptions](
        name="judge",
        role="proxy",
        prompt=functools.partial(_gate_prompt, templates=templates),
        update=_gate_update,
    )
    return ask(question, models, state, context)


def _gate_prompt(state: RAGState, options: NecessityOptions, templates: Templates) -> Prompt:
    kind, asked = state["resolved_answer_type"], state["question"]
    return Prompt(
        templates["direct"],
        {"task": "answer", "question": asked, "answer_type": kind},
        {"question": asked, "answer_form": ANSWER_FORMS[kind]},
        settings={**gate_settings(options.gate), "temperature": 0.0},
        reply_tokens=PREFIX_TOKENS,
    )


def _gate_update(_state: RAGState, reply: Reply, context: Context[NecessityOptions]) -> Update:
    """Take as known what the model is not uncertain of; a reply without a token is not known."""
    opts = context.options
    least = THRESHOLDS[opts.gate] if opts.route_threshold is None else opts.route_threshold
    found = None if reply.message is None else uncertainty(reply.message, opts.gate)
    context.note("gated", gate=opts.gate, uncertainty=found, threshold=least)
    return {"known": found is not None and found <= least}
