"""A trained router: which of none, one or many rounds of retrieval does a question need?

Ours; its task is Adaptive-RAG's (Jeong et al. 2024, section 3.2), whose label is the cheapest route that was right.
For each route it gives the probability that the route's answer is right (`linear`). A dearer route is taken if it adds
more than a threshold to that probability, so that one number trades accuracy for retrieval.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ragweave.errors import UsageError
from ragweave.state import ROUTES, RouteName
from ragweave.tools.trained.card import Card, loaded_once, read_card
from ragweave.tools.trained.features import Found, probe_queries
from ragweave.tools.trained.linear import Linear, feature_names, read_linear, read_rows


def chosen_route(probabilities: Mapping[RouteName, float], threshold: float) -> RouteName:
    """Return the dearest route that adds more than `threshold` to the one that it replaces."""
    route: RouteName = "none"
    for dearer in ROUTES[1:]:
        if probabilities[dearer] - probabilities[route] > threshold:
            route = dearer
    return route


class Routed(NamedTuple):
    """A router's choice."""

    route: RouteName
    probabilities: dict[RouteName, float]
    """By route, the probability that its answer is right."""


class Router:
    """Chooses routes; safe under threads."""

    def __init__(self, weights: Linear, card: Card) -> None:
        """Take the weights and the card, which says what the router reads."""
        self._weights, self._encoder = weights, card.base
        self.threshold, self.drafts, self.probes = card.threshold or 0.0, card.drafts, card.probes

    def searches(self, question: str, draft: str) -> dict[str, int]:
        """Return what to search for before `choose`, and how many passages of each; {}: nothing."""
        return probe_queries(question, draft if self.drafts else "") if self.probes else {}

    def choose(
        self, question: str, draft: str, threshold: float | None = None, *, found: Found | None = None
    ) -> Routed:
        """Choose a route.

        Args:
            question: The question.
            draft: A model's answer without retrieval; a router of questions alone leaves it unread.
            threshold: What a dearer route must add to the probability of a right answer; None: the card's.
            found: What was found for each of `searches`.

        Raises:
            UsageError: The router reads probe searches, and `found` is missing.
        """
        if self.probes and found is None:
            raise UsageError("this router reads probe searches: search for each of `searches` first")
        probes = [found or {}] if self.probes else None
        rows = read_rows([(question, draft if self.drafts else "")], self._encoder, probes)
        chances = {name: float(one) for name, one in zip(ROUTES, self._weights.probabilities(rows)[0], strict=True)}
        return Routed(chosen_route(chances, self.threshold if threshold is None else threshold), chances)


@loaded_once
def _load(folder: Path) -> Router:
    card = read_card(folder)
    return Router(read_linear(folder, feature_names(probes=card.probes)), card)


def load_router(folder: str | Path) -> Router:
    """Return the router of a folder, loaded once; nothing in the folder is run.

    Raises:
        UsageError: The folder is no trained router, or something in it could run.
        MissingExtraError: The packages that run the embedding model are not installed.
        ModelError: The weights can't be read.
    """
    read_card(folder, "router")
    return _load(folder)
