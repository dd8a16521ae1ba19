"""A trained judge, rewriter or generator as a LangChain chat model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, PrivateAttr

from ragweave.errors import UsageError
from ragweave.tools.models.roles import ChatModel
from ragweave.tools.models.specs import ModelProvider, check_settings, checked_model
from ragweave.tools.models.tasks import Task, task_of
from ragweave.tools.models.weights import need
from ragweave.tools.text.normalize import estimate_tokens
from ragweave.tools.trained.card import Card, Role, read_card, safe_folder
from ragweave.tools.trained.forms import TASKS, task_input, verdict


class _Reply(NamedTuple):
    text: str
    input_tokens: int
    output_tokens: int
    metadata: dict[str, Any]


class TrainedChat(BaseChatModel):
    """A chat model that does the one task it was trained for.

    It reads the task that a node attaches to its prompt (`ragweave.tools.models.tasks`), never the prompt's text: a
    judge replies `<Known(True)>` or `<Known(False)>`, a rewriter the claims with their queries, a generator the answer.
    A judge that scores says its probability in `response_metadata`. The same task always gets the same reply. No code
    in the folder is run. Safe under threads.

    Examples:
        >>> judge = TrainedChat("judge/", threshold=0.6)  # doctest: +SKIP
        >>> graph = build_graph("slimplm", judge=judge, retriever=retriever)  # doctest: +SKIP
    """

    folder: str
    """The component's folder."""
    threshold: float | None = Field(default=None, ge=0.0, le=1.0)
    """Probability above which a judge that scores says known; None: the card's."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Most tokens of a reply that is written; None: as in training."""

    _card: Card = PrivateAttr()

    def __init__(self, folder: str, **settings: Any) -> None:
        """Read the card; weights load when they are first needed.

        Raises:
            UsageError: The folder is no trained judge, rewriter or generator, something in it could run, or a setting
                does not apply to it.
        """
        card = read_card(folder)
        if card.role not in TASKS:
            raise UsageError(
                f"{folder}: was trained as a {card.role}, which is no chat model: use it as the {card.role}"
            )
        foreign = "threshold" if card.threshold is None else "max_tokens"
        if settings.get(foreign) is not None:
            raise UsageError(f"{folder}: is a {card.kind} and has no setting {foreign!r}")
        safe_folder(folder)
        super().__init__(**{"folder": str(folder), **settings})
        self._card = card

    @property
    def trained_role(self) -> Role:
        """What the component was trained as."""
        return self._card.role

    @property
    def card(self) -> Card:
        """The component's card."""
        return self._card

    @property
    def _llm_type(self) -> str:
        return "ragweave-trained"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"folder": self.folder, "created": self._card.created, "threshold": self.threshold}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - LangChain's signature
        **kwargs: Any,  # noqa: ARG002 - settings of language models, without effect here
    ) -> ChatResult:
        reply = self._reply(self._task(messages))
        cuts = [at for word in stop or () if word and (at := reply.text.find(word)) >= 0]
        usage = UsageMetadata(
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            total_tokens=reply.input_tokens + reply.output_tokens,
        )
        metadata = {"model_name": f"trained:{self.folder}", **reply.metadata}
        text = reply.text[: min(cuts)] if cuts else reply.text
        message = AIMessage(content=text, usage_metadata=usage, response_metadata=metadata)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _reply(self, task: Task) -> _Reply:
        if self._card.threshold is None:
            return self._written(task)
        least = self._card.threshold if self.threshold is None else self.threshold
        question, draft = task["question"], task.get("draft", "")
        chance = self._probability(question, draft)
        metadata = {"probability": chance, "threshold": least, "finish_reason": "stop"}
        return _Reply(verdict(chance > least), estimate_tokens(question + draft), 0, metadata)

    def _probability(self, question: str, draft: str) -> float:
        if self._card.kind == "linear":
            from ragweave.tools.trained.linear import load_linear_judge

            return load_linear_judge(self.folder).probability(question, draft)
        need("A trained cross-encoder", "hf", "torch", "transformers")
        from ragweave.tools.trained.cross_encoder import load_cross_encoder

        return load_cross_encoder(self.folder).probability(question, draft)

    def _written(self, task: Task) -> _Reply:
        need("A trained writer", "hf", "torch", "transformers")
        from ragweave.tools.trained.writer import load_writer

        (one,) = load_writer(self.folder).write(task["question"], [task_input(task)], self.max_tokens)
        metadata = {"finish_reason": "stop" if one.finished else "length", "input_cut": one.cut}
        return _Reply(one.text, one.input_tokens, one.output_tokens, metadata)

    def _task(self, messages: Sequence[BaseMessage]) -> Task:
        task, wanted = task_of(messages), TASKS[self.trained_role]
        if task is None:
            raise UsageError(
                f"{self.folder}: is a trained {self.trained_role} and takes no plain prompts: use it in a graph, or "
                "attach a task to the message (ragweave.tools.models.tasks)"
            )
        if task["task"] != wanted:
            raise UsageError(
                f"{self.folder}: is a trained {self.trained_role} and can only do the task {wanted!r}, not "
                f"{task['task']!r}: use another model for that"
            )
        return task


def _trained(folder: str, settings: Mapping[str, Any]) -> ChatModel:
    if not folder:
        raise UsageError("the folder of the trained component is missing: write 'trained:judge/'")
    check_settings("trained", settings, TrainedChat)
    return checked_model(f"trained:{folder}", {"folder": folder, **settings}, TrainedChat)


PROVIDER = ModelProvider(
    name="trained",
    spec="trained:FOLDER",
    summary="a trained judge, rewriter or generator for its role; the folder alone, `judge/`, is enough",
    make=_trained,
)
