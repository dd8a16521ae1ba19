"""A trained judge, rewriter or generator as a LangChain chat model, and `load_part`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, PrivateAttr

from ragweave.errors import UsageError
from ragweave.tools.filters import FilterKind
from ragweave.tools.models.roles import ChatModel
from ragweave.tools.models.specs import ModelProvider, check_settings, checked_model, existing
from ragweave.tools.models.tasks import Task, task_of
from ragweave.trained.card import SCORES, ModelCard, PartRole, Scoring, card_of, read_card
from ragweave.trained.engines import engine_of
from ragweave.trained.filter import trained_filter
from ragweave.trained.forms import TASKS, PartReply, scored_verdict, written_reply

if TYPE_CHECKING:
    from ragweave.trained.span_scorer import SpanScorer
    from ragweave.trained.writers import TextWriter


class PartChat(BaseChatModel):
    """A chat model that performs the one task that a part was trained for.

    It works from a prompt's structured inputs (`ragweave.tools.models.tasks`), never from its
    text: a judge replies `<Known(True)>` or `<Known(False)>`, a rewriter the claims with their
    queries, a generator the answer. A prompt without inputs, or with another task, is rejected. A
    judge that scores reports its probability in `response_metadata`.

    The same inputs always get the same reply; `temperature` and other settings of language models
    are accepted and have no effect. No code in the folder is run. Safe under threads.

    Example:
        >>> judge = PartChat("judge/", threshold=0.6)  # doctest: +SKIP
        >>> graph = build_graph("slimplm", judge=judge, retriever=shelf)  # doctest: +SKIP
    """

    thinks: ClassVar[bool] = False
    """It writes nothing before its reply: one that is empty needs no room for thoughts."""

    folder: str
    """The part's folder."""
    threshold: float | None = Field(default=None, ge=0.0, le=1.0)
    """Probability above which a judge says known; None: the card's. Only for judges that score."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Most tokens of a reply; None: as in training. Only for parts that generate text."""

    _card: ModelCard = PrivateAttr()
    _engine: Scoring | SpanScorer | TextWriter | None = PrivateAttr(default=None)

    def __init__(self, folder: str, **settings: Any) -> None:
        """Read the part's card; weights are loaded by `load`, or when they are first needed.

        Args:
            folder: The part's folder.
            **settings: `threshold`, `max_tokens`.

        Raises:
            UsageError: The folder is not a finished part that this version can read, the part is
                a filter, or a setting does not apply to its kind.
        """
        card = card_of(folder)
        if card.role not in TASKS:
            raise UsageError(
                f"{folder}: was trained as a {card.role}, which is not a chat model: use it as the {card.role}"
            )
        foreign = "max_tokens" if card.kind in SCORES else "threshold"
        if settings.get(foreign) is not None:
            raise UsageError(f"{folder}: is a {card.kind} and has no setting {foreign!r}")
        super().__init__(**{"folder": folder, **settings})
        self._card = card

    @property
    def role(self) -> PartRole:
        """What the part was trained as."""
        return self._card.role

    @property
    def card(self) -> ModelCard:
        """The part's card."""
        return self._card

    @property
    def model_name(self) -> str:
        """The name that traces show."""
        return f"part:{self.folder}"

    @property
    def _llm_type(self) -> str:
        return "ragweave-part"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"folder": self.folder, "created": self._card.created, "threshold": self._least}

    @property
    def _least(self) -> float:
        return self._card.effective_threshold if self.threshold is None else self.threshold

    def load(self) -> None:
        """Load the weights now rather than at the first call.

        Raises:
            UsageError: The folder is unsafe: it contains code or a pickle, or refers to code.
            MissingExtraError: What the kind needs is not installed.
            ModelError: The weights can't be read.
        """
        if self._engine is None:
            self._engine = engine_of(self.folder)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - LangChain's signature
        **kwargs: Any,  # noqa: ARG002 - settings of language models, without effect here
    ) -> ChatResult:
        reply = self._reply(self._task(messages))
        cuts = [index for word in stop or () if word and (index := reply.text.find(word)) >= 0]
        message = AIMessage(
            content=reply.text[: min(cuts)] if cuts else reply.text,
            usage_metadata=_usage(reply),
            response_metadata={"model_name": self.model_name, **reply.metadata},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _reply(self, task: Task) -> PartReply:
        self.load()
        engine: Any = self._engine
        if self._card.kind in SCORES:
            return scored_verdict(engine, task, self._least)
        return written_reply(engine, task, self.max_tokens)

    def _task(self, messages: Sequence[BaseMessage]) -> Task:
        task, trained_for = task_of(messages), TASKS[self.role]
        if task is None:
            raise UsageError(
                f"{self.folder}: is a trained {self.role} and takes no plain prompts: use it in a "
                f"graph, or attach a task to the message (ragweave.tools.models.tasks)"
            )
        if task["task"] != trained_for:
            raise UsageError(
                f"{self.folder}: is a trained {self.role} and can only do the task "
                f"{trained_for!r}, not {task['task']!r}: use another model for that"
            )
        return task


def _usage(reply: PartReply) -> UsageMetadata:
    total = reply.input_tokens + reply.output_tokens
    return UsageMetadata(input_tokens=reply.input_tokens, output_tokens=reply.output_tokens, total_tokens=total)


def _part(folder: str, settings: Mapping[str, Any]) -> ChatModel:
    if not folder:
        raise UsageError("the folder of the trained part is missing: write 'part:judge/'")
    check_settings("part", settings, PartChat)
    return checked_model(f"part:{folder}", {"folder": folder, **settings}, PartChat)


PART = ModelProvider(
    name="part",
    spec="part:FOLDER",
    summary="a trained judge, rewriter or generator for its role; the folder alone, `judge/`, is enough",
    make=_part,
)


@overload
def load_part(folder: str | Path, role: Literal["filter"]) -> FilterKind: ...
@overload
def load_part(folder: str | Path, role: Literal["judge", "rewriter", "generator"]) -> PartChat: ...
@overload
def load_part(folder: str | Path, role: PartRole | None = None) -> PartChat | FilterKind: ...


def load_part(folder: str | Path, role: PartRole | None = None) -> PartChat | FilterKind:
    """Load a trained part, ready for a graph.

    Args:
        folder: The part's folder.
        role: The role that it must have; None: any.

    Returns:
        A chat model for a judge, rewriter or generator; a context filter, whose weights load when they
        are first needed, for a filter.

    Raises:
        UsageError: There is no such folder, its training did not finish, it is of another format
            version or unsafe, or the part was trained for another role.
        MissingExtraError: What the part's kind needs is not installed.
        ModelError: The weights can't be read.
    """
    path = existing(Path(folder).expanduser())
    if read_card(path, role).role == "filter":
        return trained_filter(str(path))
    part = PartChat(str(path))
    part.load()
    return part
