"""Trained components in use: judges and routers decide, those that write are chat models, and context filters."""

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.decisions import BaseDecisionModel, Choice, ClassifierResponse, Noul
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import BaseModel, Field, PrivateAttr
from typing_extensions import override

from ragweave.errors import ModelError, UsageError, need, one_line_of
from ragweave.state import ROUTES
from ragweave.tools.filters import FilterKind, quoted
from ragweave.tools.models.messages import task_of
from ragweave.tools.trained.card import CARD, Card, TrainedRole, read_card
from ragweave.tools.trained.forms import TASKS, Passage, by_passage, filter_input, task_input

_LOGGER = logging.getLogger("ragweave")


def dearest(probabilities: Sequence[float], threshold: float) -> int:
    """Return the number of the dearest route that adds more than `threshold` to the one that it replaces.

    That rule is ours: a single number trades accuracy for retrieval.
    """
    route = 0
    for dearer in range(1, len(probabilities)):
        if probabilities[dearer] - probabilities[route] > threshold:
            route = dearer
    return route


@contextmanager
def loaded(folder: str | Path) -> Iterator[Any]:
    """Load a component, once for all graphs of the process, and give it to one thread at a time.

    Yields:
        What the kind's `load` returns (`linear.py`, `bi_encoder.py`, `writer.py`).

    Raises:
        MissingExtraError: The packages of that kind are not installed.
        ModelError: The weights are damaged, or not there.
    """
    path = Path(folder).expanduser().resolve()
    with _TURN:  # tokenizers are not safe under threads
        yield _loaded(path, (path / CARD).stat().st_mtime_ns)


_TURN = threading.RLock()


@lru_cache(maxsize=8)
def _loaded(path: Path, _changed: int) -> Any:
    card = read_card(path)
    if card.kind == "linear":
        need("A trained linear component", "offline", "safetensors")
        from ragweave.tools.trained.linear import load
    elif card.kind == "bi-encoder":
        need("A trained bi-encoder", "encoders", "sentence_transformers")
        from ragweave.tools.trained.bi_encoder import load
    else:
        need(f"A trained {card.kind}", "hf", "safetensors", "torch", "transformers")
        from ragweave.tools.trained.writer import load
    try:
        return load(path, card)
    except UsageError:
        raise
    except Exception as error:  # each library has errors of its own
        raise ModelError(f"{path}: can't be read ({one_line_of(error)})") from error


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
    def trained_role(self) -> TrainedRole:
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
        fields = state if isinstance(state, Mapping) else {}
        question, draft = str(fields.get("question") or ""), str(fields.get("draft") or "")
        if not question or "passage" in fields or "passages" in fields or (self._card.drafts and not draft):
            reads = "a question and a draft answer" if self._card.drafts else "a question"
            raise UsageError(f"{self.folder}: this {role} reads only {reads}: name another model for this step")
        if any(type(asked) is not kind for asked in questions.values()):
            raise UsageError(f"{self.folder}: this trained {role} answers only a {kind.__name__}")
        with loaded(self.folder) as component:
            (prediction,) = component.predict([(question, draft if self._card.drafts else "")])
        chances: list[float] = np.atleast_1d(prediction).tolist()
        answers = {name: self._answer(asked, chances) for name, asked in questions.items()}
        return ClassifierResponse.model_validate({"model": self.model, "answers": answers})

    def _answer(self, question: Any, chances: Sequence[float]) -> dict[str, Any]:
        if self.trained_role == "judge":
            return {"type": "noul", "noul": chances[0]}
        labels = list(question.criteria)
        if len(labels) != len(ROUTES):
            raise UsageError(f"{self.folder}: chooses among {len(ROUTES)} routes, not {len(labels)}")
        chosen, by_label = dearest(chances, self.threshold or 0.0), dict(zip(labels, chances, strict=True))
        return {"type": "choice", "choice": labels[chosen], "probabilities": by_label, "confidence": chances[chosen]}


class TrainedChat(_Component, BaseChatModel, extra="forbid"):
    """A chat model that does the one task it was trained for.

    It reads the task that a node attaches to its prompt (`ragweave.tools.models.messages`), never the prompt's text: a
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
                f"{self.folder}: this trained {self.trained_role} can only do the task {wanted!r} of a graph: use "
                "another model here"
            )
        with loaded(self.folder) as writer:
            (reply,) = writer.write(task["question"], [task_input(task)])
        read, written = reply.input_tokens, reply.output_tokens
        message = AIMessage(
            content=reply.text,
            usage_metadata=UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written),
            response_metadata={
                "model_name": f"trained:{self.folder}",
                "finish_reason": "stop" if reply.finished else "length",
            },
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


def trained_model(folder: str, settings: Mapping[str, Any]) -> TrainedDecisions | TrainedChat:
    """Return a trained component as a model, with the settings of its kind.

    Raises:
        UsageError: It is a filter, which is not a model.
    """
    card = read_card(folder)
    if card.role == "filter":
        raise UsageError(f"{folder}: was trained as a filter, which is not a chat model: use filter={folder}")
    kind = TrainedDecisions if card.threshold is not None else TrainedChat
    return kind(folder=folder, **settings)


# ---- filters


def trained_filter(folder: str | Path) -> FilterKind:
    """Return the filter in a folder; its weights load at the first use.

    A bi-encoder distributes a probability of 1 over the sentences of all passages; a sentence's score is its
    probability divided by the best one's, and the best one always stays. A generating filter (FILCO, section 2.3) keeps
    the sentences that it quotes: a prompt gets the passages' own text. A filter trained on full passages (PSG) may drop
    them all. Safe under threads.

    Raises:
        UsageError: The folder does not hold a trained filter.
    """
    card = read_card(folder, "filter")
    return FilterKind(
        name="trained",
        summary=f"Sentences that the filter in {folder} finds helpful.",
        scores=lambda question, segments, _answers, _settings: _scores(folder, card, question, segments),
        threshold=(card.threshold or 0.0) * (1 - 1e-9),  # a share at the threshold stays, whatever its last bits
        top=None if card.threshold is None else 1,
        granularity=card.unit,
        reads_answers=False,
    )


def _scores(folder: str | Path, card: Card, question: str, segments: Sequence[Document]) -> list[float]:
    if card.threshold is None:
        return _by_quotes(folder, card, question, segments)
    passages = [
        Passage(str(group[0].metadata.get("title") or ""), [segment.page_content for segment in group])
        for group in by_passage(segments)
    ]
    with loaded(folder) as shares:
        return list(shares(question, passages))


def _by_quotes(folder: str | Path, card: Card, question: str, segments: Sequence[Document]) -> list[float]:
    """Score what the filter quotes; as in training, it reads all passages in one input, or each alone."""
    texts = [" ".join(segment.page_content for segment in group) for group in by_passage(segments)]
    groups = by_passage(segments) if card.alone else [list(segments)]
    inputs = [filter_input(question, [text]) for text in texts] if card.alone else [filter_input(question, texts)]
    with loaded(folder) as writer:
        written = writer.write(question, inputs)
    if any(reply.cut for reply in written):
        _LOGGER.warning("%s: the passages did not fit the filter's input, and were cut", folder)
    return [
        score
        for group, reply in zip(groups, written, strict=True)
        for score in quoted(reply.text, [segment.page_content for segment in group])
    ]
