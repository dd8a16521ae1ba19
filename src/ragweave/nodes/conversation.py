"""The steps of a conversation around a method: take the question, restate it, say the answer.

A follow-up ("and who wrote it?") is rewritten to stand alone before the method sees it, as in
conversational retrieval: Elgohary et al. 2019 (CANARD), Anantha et al. 2021 (QReCC). Nothing is
rewritten where there is no earlier turn.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.caches import BaseCache
from langchain_core.callbacks import (
    AsyncCallbackManagerForLLMRun,
    CallbackManagerForLLMRun,
)
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.utils import trim_messages
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable
from langgraph.constants import TAG_NOSTREAM
from langgraph.types import Overwrite
from pydantic import Field

from ragweave.errors import PromptTooLongError, UsageError
from ragweave.nodes.ask import Ask, Prompt, Reply, ask
from ragweave.nodes.model_context import budget_of, learnt_context
from ragweave.nodes.options import Options, OptionsT
from ragweave.nodes.restate_reply import EXAMPLE, LONGEST_TURN, read_restated
from ragweave.nodes.step import Call, Context, Step, Work, pure
from ragweave.state import Citation, Update, no_usage
from ragweave.state.chat import ChatState
from ragweave.state.passages import whole
from ragweave.tools.citations import cite, still_hold
from ragweave.tools.footnotes import cited_message
from ragweave.tools.models import ChatModel, Models
from ragweave.tools.text.normalize import estimate_message_tokens, estimate_tokens
from ragweave.tools.text.reply import cut_off
from ragweave.tools.text.untrusted import untrusted

RESTATE = ChatPromptTemplate(
    [
        (
            "human",
            "Rewrite the last question of a conversation so that it can be understood without the "
            "conversation: put names in the place of words such as it, they or there, and add what "
            "was left out. Keep its language. Do not answer it; write the question alone. A "
            "question that stands alone already is repeated as it is.\n\n"
            "Conversation:\n"
            f"User: When was the lighthouse on {EXAMPLE} lit?\n"
            "Assistant: 1891\n"
            "Last question: And who paid for it?\n"
            f"Rewritten: Who paid for the lighthouse on {EXAMPLE}?\n\n"
            "Conversation:\n{history}\n"
            "Last question: {question}\n"
            "Rewritten:",
        )
    ]
)
"""Written for ragweave; the task is CANARD's and QReCC's, with one example."""

RESTATE_TOKENS = 128
"""Most tokens that a restated question adds to the one that was asked."""


def history_of(state: ChatState, tokens: int) -> list[BaseMessage]:
    """Return the turns before the question, the latest ones that fit the budget.

    Tool calls, tool results and system messages are no part of it; a long message is cut.

    Args:
        state: The conversation.
        tokens: Most tokens of the history, estimated.
    """
    # A token has two characters or more: the latest message is there, however small the budget.
    longest = min(LONGEST_TURN, 2 * max(tokens - estimate_message_tokens([AIMessage("")]), 0))
    said: list[BaseMessage] = []
    for message in state["messages"][: _asked_at(state["messages"])]:
        text = message.text.strip()[:longest]
        if text and message.type in ("human", "ai"):
            said.append(HumanMessage(text) if message.type == "human" else AIMessage(text))
    kept = trim_messages(
        said, max_tokens=tokens, token_counter=estimate_message_tokens, strategy="last"
    )
    return list(kept)


def turn_step(options: OptionsT) -> Step[ChatState, OptionsT]:
    """Return the node `turn`: takes the question, clears what the last turn left, sets the clock."""

    def body(state: ChatState, context: Context[OptionsT]) -> Work:
        update = turn(state, nested=_is_nested(context))
        if context.options.timeout is not None:
            update["deadline"] = time.time() + context.options.timeout
        return pure(update)

    return Step("turn", body, options)


def turn(state: ChatState, *, nested: bool = False) -> Update:
    """Take the last human message as the question.

    A question that was edited, by a message of its id, is answered anew: the answer to what it was
    before goes.

    Args:
        state: The conversation.
        nested: Whether another graph gives its messages: an agent's may stand behind the question.

    Raises:
        UsageError: There is none, it is blank, or its answer stands behind it.
    """
    messages = state["messages"]
    at = _asked_at(messages)
    asked = question_of(messages[at])
    answered = not nested and any(map(is_answer, messages[at:]))
    if answered and not _is_edited(state, messages[at]):
        raise UsageError(NOTHING_NEW)
    kept = [one for one in messages[at:] if not is_answer(one)]
    cleared: dict[str, object] = {
        **({"messages": Overwrite([*messages[:at], *kept])} if answered else {}),
        "asked": messages[at],
        "question": asked,
        "answer": "",
        "status": "unknown",
        "truncated": False,
        "passages": [],
        "citations": [],
        "candidates": {},
        "usage": Overwrite(no_usage()),
        "notes": Overwrite([]),
    }
    return _update(cleared)


def _is_edited(state: ChatState, message: AnyMessage) -> bool:
    """Say whether a message is the one that the last turn answered, and says something else now."""
    before = state.get("asked")
    return before is not None and before.id == message.id and before.text != message.text


NOTHING_NEW = (
    "the messages have no question behind the last answer, and a conversation's last "
    "question is not asked again"
)


def question_of(message: BaseMessage) -> str:
    """Return the question that a message asks.

    Raises:
        UsageError: It holds something else than text, or it is blank.
    """
    blocks = message.content if isinstance(message.content, list) else []
    for block in blocks:
        if isinstance(block, dict) and block.get("type") != "text":
            raise UsageError(f"a question holds text alone, not {block.get('type')!r}")
    asked = whole(message.text.strip())
    if not asked:
        raise UsageError("the question is empty: ask something")
    return asked


def is_answer(message: object) -> bool:
    """Say whether a message answers; an agent's, which calls a tool to do so, does not."""
    return isinstance(message, AIMessage) and not message.tool_calls and bool(message.text.strip())


def _is_nested(context: Context[Any]) -> bool:
    """Say whether the conversation is a node of another graph, by LangGraph's path of the task."""
    return "|" in str((context.config.get("metadata") or {}).get("langgraph_checkpoint_ns") or "")


@dataclass(frozen=True)
class _Restating:
    """How a follow-up is restated: with as much of what was said as fits the prompt."""

    model: Any
    template: ChatPromptTemplate
    tokens: int
    """Most tokens of the history."""

    def history(self, state: ChatState, options: Options) -> list[BaseMessage]:
        """Return the turns before the follow-up that the prompt has room for."""
        budget = budget_of(self.model, options)
        if budget is None:
            return history_of(state, self.tokens)
        taken = estimate_message_tokens(self._asked(state, [], options).messages([]))
        return history_of(state, min(self.tokens, budget - taken))

    def prompt(self, state: ChatState, options: Options) -> Prompt:
        return self._asked(state, self.history(state, options), options)

    def _asked(self, state: ChatState, said: Sequence[BaseMessage], options: Options) -> Prompt:
        return Prompt(
            self.template,
            {
                "task": "restate",
                "question": state["question"],
                "candidates": [one.text for one in reversed(said) if one.type == "human"],
            },
            {"history": transcript(said), "question": untrusted(state["question"])},
            reply_tokens=min(
                RESTATE_TOKENS + estimate_tokens(state["question"]),
                max(RESTATE_TOKENS, options.reply_tokens),
            ),
        )

    def update(self, state: ChatState, reply: Reply, context: Context[Any]) -> Update:
        said = [one.text for one in self.history(state, context.options)]
        restated = _restated(reply, state["question"], said)
        if not restated:
            context.note("restate_unread", reply=reply.text[:200])
        return {"question": restated or state["question"]}


def _restated(reply: Reply, question: str, said: Sequence[str]) -> str:
    """Return the question that a reply restates; "" where its limit cut it off inside of it."""
    if not cut_off(reply.message):
        return read_restated(reply.text, question, said)
    finished = reply.text.rpartition("\n")[0]  # models that run on are cut behind the question
    restated = read_restated(finished, question, said)
    lines = sum(bool(line.strip()) for line in question.splitlines())
    return restated if len(restated.splitlines()) >= lines else ""


def restate_step(
    restater: ChatModel, template: ChatPromptTemplate, options: OptionsT, tokens: int
) -> Step[ChatState, OptionsT]:
    """Return the node `restate`.

    Args:
        restater: The model that restates.
        template: Its prompt, with `history` and `question`.
        options: The method's options.
        tokens: Most tokens of the history; it has no more than a prompt's budget leaves it. Where
            that is nothing, the follow-up stays as it was, noted `restate_no_room`.
    """
    silent: Any = restater.with_config(tags=[TAG_NOSTREAM])
    models = Models(answer=silent, rewrite=silent)
    how = _Restating(silent, template, tokens)
    question = Ask[ChatState, Any](
        name="restate", role="rewrite", prompt=how.prompt, update=how.update
    )

    def body(state: ChatState, context: Context[OptionsT]) -> Work:
        yield from learnt_context(silent)
        if how.history(state, context.options):
            with suppress(PromptTooLongError, ContextOverflowError):
                return (yield from ask(question, models, state, context))
        context.note("restate_no_room")
        return _update({})

    return Step("restate", body, options)


def as_asked_step(options: OptionsT) -> Step[ChatState, OptionsT]:
    """Return the node `restate` where no model can: the follow-up stays as it was, noted."""

    def body(_state: ChatState, context: Context[OptionsT]) -> Work:
        context.note("restate_unable")
        return pure(_update({}))

    return Step("restate", body, options)


def to_restate(tokens: int) -> Any:
    """Return the route behind `turn`: nothing to restate without an earlier turn."""

    def route(state: ChatState, _options: Options) -> str:
        return "follow-up" if history_of(state, tokens) else "first question"

    return route


def transcript(messages: Sequence[BaseMessage]) -> str:
    """Return turns as lines of a prompt, a line each; what they say can't write another turn."""
    names = {"human": "User", "ai": "Assistant"}
    return "\n".join(
        f"{names[one.type]}: {' '.join(untrusted(one.text).split())}" for one in messages
    )


def reply_step(options: OptionsT) -> Step[ChatState, OptionsT]:
    """Return the node `reply`, which says the answer as a message, streamed word by word."""

    def body(state: ChatState, context: Context[OptionsT]) -> Work:
        citations = citations_of(state, context.options)
        message = answer_message(state, citations)
        # What the turn cost was reported call by call: said again, traces would count it twice.
        spoken = message.model_copy(update={"usage_metadata": None})
        yield Call(Speaker(message=spoken), [HumanMessage(state["question"])])
        said: dict[str, object] = {"messages": [message]}
        anew = {} if citations == state["citations"] else {"citations": citations}
        return _update({**said, **anew})

    return Step("reply", body, options)


def citations_of(state: ChatState, options: Options) -> list[Citation]:
    """Return the citations of the answer as it stands.

    Those of an answer or passages that somebody has edited since are made anew, or dropped where
    the method cites nothing.
    """
    answer, passages, citations = state["answer"], state["passages"], state["citations"]
    if still_hold(answer, passages, citations, whole_answer=options.citations):
        return citations
    if not options.citations:
        return []
    return cite(state["question"], answer, passages, options.default_answer_type)


def answer_message(state: ChatState, citations: Sequence[Citation]) -> AIMessage:
    """Return the method's answer as a message, with its citations and what the turn cost."""
    usage = state["usage"]
    given, made = usage["input_tokens"], usage["output_tokens"]
    return cited_message(
        state["answer"],
        state["passages"],
        citations,
        id=f"answer-{uuid.uuid4()}",
        usage_metadata=UsageMetadata(
            input_tokens=given, output_tokens=made, total_tokens=given + made
        ),
    )


class Speaker(BaseChatModel):
    """Says one message, word by word, to whoever streams a run's messages.

    The answer of a method is known when its last vote is; the calls before it are kept out of the
    stream, so that no reader takes a candidate for the answer.
    """

    message: AIMessage
    cache: BaseCache | bool | None = Field(default=False, exclude=True)
    """None: a cache for all models (`set_llm_cache`) would say an old answer to the same question."""

    @property
    def _llm_type(self) -> str:
        return "speaker"

    def _generate(
        self,
        messages: list[BaseMessage],  # noqa: ARG002 - LangChain's signature, as below
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.message)])

    def _stream(
        self,
        messages: list[BaseMessage],  # noqa: ARG002
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in self._chunks():
            if run_manager is not None:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],  # noqa: ARG002
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._chunks():
            if run_manager is not None:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    def _chunks(self) -> Iterator[ChatGenerationChunk]:
        block: Mapping[str, Any] = self.message.content_blocks[0]
        for piece in re.findall(r"\s*\S+|\s+", self.message.text):
            yield self._chunk([{"type": "text", "text": piece, "index": 0}])
        rest = {"type": "text", "text": "", "index": 0}
        if "annotations" in block:
            rest["annotations"] = block["annotations"]
        yield self._chunk([rest], chunk_position="last")

    def _chunk(self, content: Any, **more: Any) -> ChatGenerationChunk:
        chunk = AIMessageChunk(content=content, id=self.message.id, **more)
        return ChatGenerationChunk(message=chunk)


def _update(fields: dict[str, object]) -> Update:
    """Return an update of a conversation, whose fields differ from a method's."""
    return cast("Update", fields)


def _asked_at(messages: Sequence[AnyMessage]) -> int:
    """Return the index of the last human message.

    Raises:
        UsageError: There is none.
    """
    for index in reversed(range(len(messages))):
        if messages[index].type == "human":
            return index
    raise UsageError("the conversation has no question: its messages need one from the user")


def silent(graph: Runnable[Any, Any]) -> Any:
    """Return a graph whose model calls no stream of messages shows."""
    return graph.with_config(tags=[TAG_NOSTREAM])
