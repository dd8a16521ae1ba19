"""How it is decided whether a draft is enough: by a judge, by uncertainty, or by a trained router.

* `route=judge`: the retrieval necessity judge (SlimPLM, section 3.2), as in `judge`.
* `route=uncertainty`: the proxy answers once more, shortly, and is taken to know what it is not
  uncertain of (`uncertainty_gate`).
* `route=classifier`: a router that `ragweave train router` trained on outcomes chooses none, one
  or many rounds (Adaptive-RAG, Jeong et al. 2024, section 3.2). One round searches the question
  alone; many rounds rewrite, blend and search again, as the method's other options say.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from langchain_core.runnables import RunnableLambda

from ragweave.nodes.ask import Templates
from ragweave.nodes.judge import NecessityOptions, judge_step
from ragweave.nodes.step import Call, Context, Step, Work
from ragweave.nodes.uncertainty_gate import gated
from ragweave.state import RAGState
from ragweave.tools.models import Models
from ragweave.tools.scorers.specs import LogprobScorer

if TYPE_CHECKING:
    from ragweave.trained.router import Routed


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
                return gated("judge", models, templates, state, context)
        return judged.work(state, context)

    return Step("judge", body, options)


def _classified(state: RAGState, context: Context[NecessityOptions]) -> Work:
    opts = context.options
    choose = functools.partial(choose_route, opts.router, opts.route_threshold)
    pair = (state["question"], state["heuristic_answer"])
    found: Routed = yield Call(RunnableLambda(choose), pair)
    chances = {name: round(one, 4) for name, one in found.probabilities.items()}
    context.note("routed", route=found.route, probabilities=chances)
    return {"known": found.route == "none", "route": found.route}


def choose_route(folder: str, threshold: float | None, pair: tuple[str, str]) -> Routed:
    """Return a trained router's choice for a question and its draft."""
    from ragweave.trained.router import load_router  # numpy and an encoder: when one is asked

    return load_router(folder).choose(*pair, threshold)
