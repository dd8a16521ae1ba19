"""Trained components as models: judges and routers decide, those that write are chat models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.decisions import BaseDecisionModel, Choice, ClassifierResponse, Noul
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import BaseModel, Field, PrivateAttr
from typing_extensions import override

from ragweave.errors import UsageError
from ragweave.state import ROUTES
from ragweave.tools.models.tasks import task_of
from ragweave.tools.trained.card import Card, Role, load, read_card
from ragweave.tools.trained.forms import TASKS, task_input


def dearest(probabilities: Sequence[float], threshold: float) -> int:
    """Return the number of the dearest route that adds more than `threshold` to the one that it replaces.

    That rule is ours: one number trades accuracy for retrieval.
    """
    route = 0
    for dearer in range(1, len(probabilities)):
        if probabilities[dearer] - probabilities[route] > threshold:
            route = dearer
    return route


class _Component(BaseModel):
    """A trained component's folder and card; weights load when they are first needed."""

    folder: str
    """The component's folder."""

    _card: Card = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Read the card."""
        super().model_post_init(context)
        self._card = read_card(self.folder)

    @property
    def trained_role(self) -> Role:
        """What the component was trained as."""
        return self._card.role


class TrainedDecisions(_Component, BaseDecisionModel, extra="forbid"):
    """A trained judge or router. It reads `question` and `draft` of the state, and was trained for its one question.

    A judge's answer is a `Noul`: how probable it is that a draft answers its question (SlimPLM, section 3.2). A router's
    is a `Choice`: its labels are the routes, from no to many rounds of retrieval, with the probabilities of a right
    answer, which need not add up to 1 (the task of Adaptive-RAG, section 3.2, whose label is the cheapest route that was
    right). Safe under threads.

    Examples:
        >>> judge = TrainedDecisions(folder="judge/", threshold=0.6)  # doctest: +SKIP
        >>> graph = build_graph("slimplm", judge=judge, retriever=retriever)  # doctest: +SKIP
    """

    model: str = ""
    """`trained:FOLDER`."""
    threshold: float | None = Field(default=None, ge=0, le=1)
    """A judge says yes above it; a router's dearer route must add more than it to the probability of a right answer.
    None: the card's."""

    def model_post_init(self, context: Any, /) -> None:
        """Read the card, and take its threshold unless another one is given."""
        super().model_post_init(context)
        self.model = self.model or f"trained:{self.folder}"
        self.threshold = self._card.threshold if self.threshold is None else self.threshold

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
        chances = load(self.folder).chances(question, draft if self._card.drafts else "")
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


class TrainedChat(_Component, BaseChatModel, extra="forbid"):
    """A chat model that does the one task it was trained for.

    It reads the task that a node attaches to its prompt (`ragweave.tools.models.tasks`), never the prompt's text: a
    judge replies `<Known(True)>` or `<Known(False)>`, a rewriter the claims with their queries, a generator the answer.
    The same task always gets the same reply. Safe under threads.
    """

    @property
    def _llm_type(self) -> str:
        return "ragweave-trained"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"folder": self.folder, "created": self._card.created}

    @override
    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        task, wanted = task_of(messages), TASKS[self.trained_role]
        if task is None or task["task"] != wanted:
            raise UsageError(
                f"{self.folder}: is a trained {self.trained_role} and can only do the task {wanted!r} of a graph: use "
                "another model here"
            )
        (one,) = load(self.folder).write(task["question"], [task_input(task)])
        read, written = one.input_tokens, one.output_tokens
        metadata = {"finish_reason": "stop" if one.finished else "length", "input_cut": one.cut}
        message = AIMessage(
            content=one.text,
            usage_metadata=UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written),
            response_metadata={"model_name": f"trained:{self.folder}", **metadata},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


def trained_model(folder: str, settings: Mapping[str, Any]) -> TrainedDecisions | TrainedChat:
    """Return a trained component as a model, with the settings of its kind.

    Raises:
        UsageError: It is a filter, which is no model.
    """
    card = read_card(folder)
    if card.role == "filter":
        raise UsageError(f"{folder}: was trained as a filter, which is no chat model: use filter={folder}")
    kind = TrainedDecisions if card.threshold is not None else TrainedChat
    return kind(folder=folder, **settings)
