"""A trained component that writes, a judge, rewriter or generator, as a LangChain chat model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, PrivateAttr

from ragweave.errors import UsageError
from ragweave.tools.models.specs import ModelProvider, check_settings, checked
from ragweave.tools.models.tasks import Task, task_of
from ragweave.tools.models.weights import need
from ragweave.tools.trained.card import Card, Role, read_card, safe_folder
from ragweave.tools.trained.decisions import TrainedDecisions
from ragweave.tools.trained.forms import TASKS, task_input


class TrainedChat(BaseChatModel):
    """A chat model that does the one task it was trained for.

    It reads the task that a node attaches to its prompt (`ragweave.tools.models.tasks`), never the prompt's text: a
    judge replies `<Known(True)>` or `<Known(False)>`, a rewriter the claims with their queries, a generator the answer.
    The same task always gets the same reply. No code in the folder is run. Safe under threads.
    """

    folder: str
    """The component's folder."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Most tokens of a reply that is written; None: as in training."""

    _card: Card = PrivateAttr()

    def __init__(self, folder: str, **settings: Any) -> None:
        """Read the card; weights load when they are first needed.

        Raises:
            UsageError: The folder is no trained judge, rewriter or generator, or something in it could run.
        """
        card = read_card(folder)
        safe_folder(folder)
        super().__init__(**{"folder": str(folder), **settings})
        self._card = card

    @property
    def trained_role(self) -> Role:
        """What the component was trained as."""
        return self._card.role

    @property
    def _llm_type(self) -> str:
        return "ragweave-trained"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"folder": self.folder, "created": self._card.created}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - LangChain's signature
        **kwargs: Any,  # noqa: ARG002 - settings of language models, without effect here
    ) -> ChatResult:
        need("A trained writer", "hf", "torch", "transformers")
        from ragweave.tools.trained.writer import load_writer

        task = self._task(messages)
        (one,) = load_writer(self.folder).write(task["question"], [task_input(task)], self.max_tokens)
        cuts = [at for word in stop or () if word and (at := one.text.find(word)) >= 0]
        read, written = one.input_tokens, one.output_tokens
        metadata = {"finish_reason": "stop" if one.finished else "length", "input_cut": one.cut}
        message = AIMessage(
            content=one.text[: min(cuts)] if cuts else one.text,
            usage_metadata=UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written),
            response_metadata={"model_name": f"trained:{self.folder}", **metadata},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

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


def _trained(folder: str, settings: Mapping[str, Any]) -> Any:
    if not folder:
        raise UsageError("the folder of the trained component is missing: write 'trained:judge/'")
    card = read_card(folder)
    if card.role == "filter":
        raise UsageError(f"{folder}: was trained as a filter, which is no chat model: use filter={folder}")
    kind = TrainedDecisions if card.threshold is not None else TrainedChat
    check_settings(f"trained {card.role}", settings, kind)
    return checked(f"trained:{folder}", {"folder": folder, **settings}, kind)


PROVIDER = ModelProvider(
    name="trained",
    spec="trained:FOLDER",
    summary="a trained judge, router, rewriter or generator for its role; the folder alone, `judge/`, is enough",
    make=_trained,
)
