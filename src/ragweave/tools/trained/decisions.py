"""Trained judges and routers as decision models.

A judge says how probable it is that a draft answers its question (SlimPLM, section 3.2). A router says for each of no,
one and many rounds of retrieval how probable a right answer is: the task of Adaptive-RAG (section 3.2), whose label is
the cheapest route that was right. A dearer route is taken if it adds more than a threshold to that probability, so that
one number trades accuracy for retrieval; that rule is ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.decisions import BaseDecisionModel, Choice, ClassifierResponse, Noul
from pydantic import Field, PrivateAttr

from ragweave.errors import UsageError
from ragweave.state import ROUTES
from ragweave.tools.models.weights import need
from ragweave.tools.trained.card import Card, Role, read_card, safe_folder


def dearest(probabilities: Sequence[float], threshold: float) -> int:
    """Return the number of the dearest route that adds more than `threshold` to the one that it replaces."""
    route = 0
    for dearer in range(1, len(probabilities)):
        if probabilities[dearer] - probabilities[route] > threshold:
            route = dearer
    return route


class TrainedDecisions(BaseDecisionModel):
    """A trained judge or router. It reads `question` and `draft` of the state, and was trained for its one question.

    A judge's answer is a `Noul`; a router's a `Choice` whose labels are its routes from none to many, and whose
    probabilities are those of a right answer, which need not add up to 1. No code in the folder is run. Safe under
    threads.

    Examples:
        >>> judge = TrainedDecisions(folder="judge/", threshold=0.6)  # doctest: +SKIP
        >>> graph = build_graph("slimplm", judge=judge, retriever=retriever)  # doctest: +SKIP
    """

    model: str = ""
    """`trained:FOLDER`."""
    folder: str
    """The component's folder."""
    threshold: float | None = Field(default=None, ge=0, le=1)
    """A judge says yes above it; a router's dearer route must add more than it to the probability of a right answer.
    None: the card's."""

    _card: Card = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Read the card; weights load when they are first needed.

        Raises:
            UsageError: The folder is no trained judge or router, or something in it could run.
        """
        super().model_post_init(context)
        self._card = read_card(self.folder)
        safe_folder(self.folder)
        self.model = self.model or f"trained:{self.folder}"
        self.threshold = self._card.threshold if self.threshold is None else self.threshold

    @property
    def trained_role(self) -> Role:
        """What the component was trained as."""
        return self._card.role

    @property
    def _provider(self) -> str:
        return "ragweave"

    def _classify(self, state: Any, questions: dict[str, Any]) -> ClassifierResponse:
        role = self.trained_role
        kind = Noul if role == "judge" else Choice
        given = state if isinstance(state, Mapping) else {}
        question, draft = str(given.get("question") or ""), str(given.get("draft") or "")
        if not question or "passage" in given or "passages" in given or (self._card.drafts and not draft):
            reads = "a question and a draft answer" if self._card.drafts else "a question"
            raise UsageError(f"{self.folder}: is a {role} that reads {reads} alone: name another model for this step")
        if any(type(one) is not kind for one in questions.values()):
            raise UsageError(f"{self.folder}: is a trained {role} and answers nothing but a {kind.__name__}")
        chances = self._probabilities(question, draft if self._card.drafts else "")
        answers = {name: self._answer(one, chances) for name, one in questions.items()}
        return ClassifierResponse.model_validate({"model": self.model, "answers": answers})

    def _answer(self, question: Any, chances: Sequence[float]) -> dict[str, Any]:
        if self.trained_role == "judge":
            return {"type": "noul", "noul": chances[0]}
        labels = list(question.criteria)
        if len(labels) != len(ROUTES):
            raise UsageError(f"{self.folder}: chooses among {len(ROUTES)} routes, not {len(labels)}")
        chosen, found = dearest(chances, self.threshold or 0.0), dict(zip(labels, chances, strict=True))
        return {"type": "choice", "choice": labels[chosen], "probabilities": found, "confidence": chances[chosen]}

    def _probabilities(self, question: str, draft: str) -> Sequence[float]:
        if self._card.kind == "linear":
            from ragweave.tools.trained.linear import load_linear

            return load_linear(self.folder)(question, draft)
        need("A trained cross-encoder", "hf", "torch", "transformers")
        from ragweave.tools.trained.cross_encoder import load_cross_encoder

        return load_cross_encoder(self.folder).probabilities([(question, draft)])
