"""How it is decided whether a draft is enough: by a judge, by uncertainty, or by a trained router.

* `route=judge`: the retrieval necessity judge (SlimPLM, section 3.2), as in `judge`.
* `route=uncertainty`: the proxy answers once more, shortly, and is taken to know what it is not
  uncertain of (`uncertainty_gate`).
* `route=classifier`: a router that `ragweave train router` trained on outcomes chooses none, one
  or many rounds (Adaptive-RAG, Jeong et al. 2024, section 3.2). One round searches the question
  alone; many rounds rewrite, blend and search again, as the method's other options say.

A router that was trained with a knowledge base takes a first look: up to four searches by words
(BM25), whose passages no prompt shows. They are no retrievals of the method; the ledger counts them
as `look_searches`.
"""

from __future__ import annotations

import functools
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from ragweave.errors import UsageError
from ragweave.nodes.ask import Templates
from ragweave.nodes.judge import NecessityOptions, judge_step
from ragweave.nodes.retrieve import Retriever
from ragweave.nodes.step import Call, Context, Step, Work
from ragweave.nodes.uncertainty_gate import gated
from ragweave.state import RAGState, no_usage
from ragweave.state.records import RouteName
from ragweave.tools.models import Models
from ragweave.tools.retrieval import PassageRetriever
from ragweave.tools.retrieval.base import lexical_of
from ragweave.tools.scorers.specs import LogprobScorer
from ragweave.trained.card import card_of, router_looks

if TYPE_CHECKING:
    from ragweave.trained.router import Routed, Router


def decide_step(
    models: Models,
    templates: Templates,
    options: NecessityOptions,
    scorer: LogprobScorer | None = None,
    retriever: Retriever | None = None,
) -> Step[RAGState, NecessityOptions]:
    """Return the node `judge`: sets `known`, and `route` where a router chose one.

    Args:
        models: The models by role.
        templates: Prompt templates by name.
        options: The build's options.
        scorer: What reads the judge by score.
        retriever: Where a router that takes a first look looks.

    Raises:
        UsageError: The router takes a first look, and the retriever can't search by words.
    """
    judged = judge_step(models, templates, options, scorer)
    if options.route == "classifier":
        check_look(options.router, retriever)

    def body(state: RAGState, context: Context[NecessityOptions]) -> Work:
        match context.options.route:
            case "classifier":
                return _classified(state, context, retriever)
            case "uncertainty":
                return gated("judge", models, templates, state, context)
        return judged.work(state, context)

    return Step("judge", body, options)


def _classified(
    state: RAGState, context: Context[NecessityOptions], retriever: Retriever | None
) -> Work:
    opts = context.options
    pair = (state["question"], state["heuristic_answer"])
    route = yield from choose_route(pair, opts.router, opts.route_threshold, retriever, context)
    return {"known": route == "none", "route": route}


def check_look(router: str, retriever: Retriever | None) -> None:
    """Check that a router that takes a first look will have something to search by words.

    Args:
        router: The router's folder.
        retriever: What the graph searches; None: its inputs bring their own passages.

    Raises:
        UsageError: It takes one, and the retriever has no lexical part.
    """
    if retriever is not None and router_looks(card_of(router)):
        _lexical(router, retriever)


def _lexical(router: str, retriever: Retriever | None) -> PassageRetriever:
    found = lexical_of(retriever)
    if found is None:
        kind = "no retriever" if retriever is None else f"the retriever {type(retriever).__name__}"
        raise UsageError(
            f"{router}: was trained with a first look by BM25, and {kind} has none: search a "
            "knowledge base by bm25 or hybrid, or a Bm25Retriever, or train the router without --kb"
        )
    return found


def choose_route(
    pair: tuple[str, str],
    router: str,
    threshold: float | None,
    retriever: Retriever | None,
    context: Context[Any],
) -> Generator[Call, Any, RouteName]:
    """Return a trained router's choice for a question and its draft, and note it.

    Args:
        pair: The question, and the draft; "": none.
        router: The router's folder.
        threshold: What a dearer route must add; None: what its training chose.
        retriever: Where it takes its first look, if it was trained to.
        context: The node's context.
    """
    part: Router = yield Call(RunnableLambda(_load), router)
    found: dict[str, list[Document]] = {}
    for query, k in part.searches(*pair).items():
        found[query] = yield Call(_lexical(router, retriever), query, {"k": k})
    if found:
        context.spend({**no_usage(), "look_searches": len(found)})
    choose = functools.partial(_chosen, part, threshold, found)
    chosen: Routed = yield Call(RunnableLambda(choose), pair)
    chances = {name: round(one, 4) for name, one in chosen.probabilities.items()}
    context.note("routed", route=chosen.route, probabilities=chances)
    return chosen.route


def _load(folder: str) -> Router:
    from ragweave.trained.router import load_router  # numpy and an encoder: when one is asked

    return load_router(folder)


def _chosen(
    part: Router,
    threshold: float | None,
    found: dict[str, list[Document]],
    pair: tuple[str, str],
) -> Routed:
    return part.choose(*pair, threshold, found=found)
