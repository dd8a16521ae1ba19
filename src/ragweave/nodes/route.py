"""A trained router's choice: does a question take no retrieval, one round or many (Adaptive-RAG, section 3.2)?

A router that was trained with a knowledge base first runs probe searches: a few BM25 queries, whose passages are
in no prompt.
"""

from __future__ import annotations

from ragweave.errors import UsageError
from ragweave.nodes.ask import Components
from ragweave.state import Note, RouteName, note
from ragweave.tools.retrieval.base import lexical_of


def choose_route(
    components: Components, question: str, draft: str, router: str, threshold: float | None
) -> tuple[RouteName, Note]:
    """Return a trained router's choice for a question and its draft, and a note of its probabilities.

    Args:
        components: The retriever, for a router that needs probe searches.
        question: The question.
        draft: The draft; "": the router must have been trained on questions alone.
        router: The router's folder.
        threshold: What a dearer route must add to the probability of a right answer; None: what training chose.

    Raises:
        UsageError: The folder is no trained router, it was trained on drafts and there is none, or it needs probe
            searches and the retriever has no BM25.
    """
    from ragweave.tools.trained.router import load_router  # numpy and an encoder, which few runs need

    loaded = load_router(router)
    if loaded.drafts and not draft:
        raise UsageError(
            f"{router}: was trained on draft answers, and a router of questions alone is needed here: "
            "`ragweave train router … --set drafts=false`"
        )
    queries = loaded.searches(question, draft)
    lexical = lexical_of(components.retriever) if queries else None
    if queries and lexical is None:
        raise UsageError(
            f"{router}: needs probe searches by BM25, and the retriever has none: search a knowledge base by "
            "bm25 or hybrid, or train the router without --kb"
        )
    found = {query: lexical.find(query, k) for query, k in queries.items()} if lexical else None
    chosen = loaded.choose(question, draft, threshold, found=found)
    chances = {name: round(one, 4) for name, one in chosen.probabilities.items()}
    return chosen.route, note("routed", route=chosen.route, probabilities=chances, searches=len(queries))
