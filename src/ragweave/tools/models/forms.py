"""What a model offers beyond text: constrained replies, and log-probabilities of their tokens.

A reply can be constrained by a grammar or a JSON schema (`offered_forms`). Token probabilities are
read from `response_metadata["logprobs"]` in OpenAI's form, which OpenAI-compatible servers and
ragweave's llama.cpp model give: `{"content": [{"token": …, "logprob": …, "bytes": […]}, …]}`.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import logging
import math
import re
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata

from ragweave.errors import ModelError
from ragweave.tools.bindings import bound_settings, unbound
from ragweave.tools.models.errors import status_of
from ragweave.tools.models.roles import ChatModel, limit_name
from ragweave.tools.models.thinking import lost_to_thoughts, note_thinking, thinking_room
from ragweave.tools.text.reply import cut_off

_LOGGER = logging.getLogger("ragweave.models")

Form = Literal["grammar", "json_schema"]
"""`grammar`: `bind(grammar=…)` takes a GBNF grammar. `json_schema`: `bind(response_format=…)` takes
OpenAI's `{"type": "json_schema", "json_schema": {"name": …, "schema": …, "strict": True}}`."""

_NONE: frozenset[Form] = frozenset()
_SCHEMA = {
    "type": "object",
    "properties": {"reply": {"type": "string", "enum": ["violet"]}},
    "required": ["reply"],
    "additionalProperties": False,
}
_TRY: dict[str, Any] = {
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "reply", "schema": _SCHEMA, "strict": True},
    },
}
_TRY_TOKENS = 32
_QUESTION = "Name a colour."
_known: dict[int, frozenset[Form]] = {}
_probes: dict[tuple[int, bool], Future[None]] = {}
_lock = threading.Lock()


def offered_forms(model: ChatModel) -> frozenset[Form]:
    """Return the forms to which a model can constrain a reply.

    A llama.cpp model offers both, at no cost. An OpenAI-compatible server is probed once, by a call
    of a few tokens that does not count in the run's usage, and the result is remembered for the
    model object; callers that ask meanwhile wait for it. A model whose thoughts take up that reply
    is probed again with room for them. No other model is known to offer any.

    Raises:
        Exception: The server failed for a reason unrelated to forms (no key, no connection).
    """
    target = unbound(model)
    while (ready := _without_asking(target)) is None:
        probe, ours = _join(target, is_async=False)
        if not ours:
            probe.result()
            continue
        with _probing(target, probe, is_async=False):
            try:
                room = thinking_room(target)
                reply = _invoke(target, _TRY_TOKENS + room)
                if cut_off(reply) and not room and lost_to_thoughts(reply):
                    note_thinking(target)
                    reply = _invoke(target, _TRY_TOKENS + thinking_room(target))
                _remember(target, _seen(reply))
            except Exception as error:  # noqa: BLE001 - raised again where it says nothing of forms
                _remember(target, _refused(error))
    return ready


async def aoffered_forms(model: ChatModel) -> frozenset[Form]:
    """Return the forms to which a model can constrain a reply, as `offered_forms` does."""
    target = unbound(model)
    while (ready := _without_asking(target)) is None:
        probe, ours = _join(target, is_async=True)
        if not ours:
            await asyncio.wrap_future(probe)
            continue
        with _probing(target, probe, is_async=True):
            try:
                room = thinking_room(target)
                reply = await _ainvoke(target, _TRY_TOKENS + room)
                if cut_off(reply) and not room and lost_to_thoughts(reply):
                    note_thinking(target)
                    reply = await _ainvoke(target, _TRY_TOKENS + thinking_room(target))
                _remember(target, _seen(reply))
            except Exception as error:  # noqa: BLE001 - raised again where it says nothing of forms
                _remember(target, _refused(error))
    return ready


def _invoke(target: Any, most: int) -> BaseMessage:
    try:
        reply: BaseMessage = target.invoke(_QUESTION, **_TRY, **_limit(target, most))
    except Exception as error:
        if (cut := cut_reply(error)) is None:
            raise
        return cut
    return reply


async def _ainvoke(target: Any, most: int) -> BaseMessage:
    try:
        reply: BaseMessage = await target.ainvoke(_QUESTION, **_TRY, **_limit(target, most))
    except Exception as error:
        if (cut := cut_reply(error)) is None:
            raise
        return cut
    return reply


def _limit(target: Any, most: int) -> dict[str, int]:
    return {limit_name(target) or "max_tokens": most}


def _join(target: Any, *, is_async: bool) -> tuple[Future[None], bool]:
    """Return the probe of `target` under way, and whether it is the caller's to make.

    A thread does not wait for an event loop's probe: it may be the thread that runs the loop.
    """
    key = id(target), is_async
    with _lock:
        ours = key not in _probes
        if ours:
            _probes[key] = Future()
            _probes[key].set_running_or_notify_cancel()
        return _probes[key], ours


@contextmanager
def _probing(target: Any, probe: Future[None], *, is_async: bool) -> Iterator[None]:
    """End `probe` with the block: those who wait share its error, but not its cancellation."""
    failed: Exception | None = None
    try:
        yield
    except Exception as error:
        failed = error
        raise
    finally:
        with _lock:
            del _probes[id(target), is_async]
        if failed is None:
            probe.set_result(None)
        else:
            probe.set_exception(failed)


def cut_reply(error: BaseException) -> AIMessage | None:
    """Return the reply behind an error that says that it was cut; None behind any other.

    The client of OpenAI raises where a reply held to a schema ends at its limit or is filtered, and
    its server refuses a reply of which nothing but thoughts fitted. The message has what arrived,
    the finish reason `length` or `content_filter` that it has without a schema, the tokens where
    they are told, and as `reasoning_content` any thoughts.
    """
    if (reason := _finish_reason(error)) is None:
        return None
    completion = getattr(error, "completion", None)
    choices = getattr(completion, "choices", None) or [None]
    said = getattr(choices[0], "message", None)
    usage = getattr(completion, "usage", None)
    spent = None
    if usage is not None:
        given, made = usage.prompt_tokens, usage.completion_tokens
        spent = UsageMetadata(input_tokens=given, output_tokens=made, total_tokens=given + made)
    return AIMessage(
        getattr(said, "content", None) or "",
        additional_kwargs=_thoughts(said, usage),
        response_metadata={
            "finish_reason": reason,
            "model_name": getattr(completion, "model", None) or "",
        },
        usage_metadata=spent,
    )


def _finish_reason(error: BaseException) -> str | None:
    named = {kind.__name__ for kind in type(error).__mro__}
    if "ContentFilterFinishReasonError" in named:
        return "content_filter"
    full = "LengthFinishReasonError" in named
    return "length" if full or _limit_reached(error) else None


_UNFINISHED = re.compile(r"max_tokens or model output limit was reached", re.IGNORECASE)


def _limit_reached(error: BaseException) -> bool:
    """Return whether OpenAI's server says by an error that thoughts took up the whole reply.

    Status 400, "Could not finish the message because max_tokens or model output limit was reached".
    """
    return status_of(error) == 400 and _UNFINISHED.search(str(error)) is not None


def _thoughts(said: Any, usage: Any) -> dict[str, Any]:
    """Return the thoughts of a completion, by whichever name; "" where only their tokens show."""
    for name in ("reasoning_content", "reasoning"):
        if isinstance(thought := getattr(said, name, None), str):
            return {"reasoning_content": thought}
    details = getattr(usage, "completion_tokens_details", None)
    return {"reasoning_content": ""} if getattr(details, "reasoning_tokens", None) else {}


def _without_asking(target: Any) -> frozenset[Form] | None:
    """Return what is known without a call; None where a call is needed."""
    if getattr(target, "offers_grammar", False) is True:
        return frozenset({"grammar", "json_schema"})
    if not any(kind.__name__ == "BaseChatOpenAI" for kind in type(target).__mro__):
        return _NONE
    with _lock:
        return _known.get(id(target))


def _remember(target: Any, forms: frozenset[Form]) -> None:
    with _lock:
        first = id(target) not in _known
        if first:
            weakref.finalize(target, _known.pop, id(target), None)
        _known[id(target)] = forms
    if first and not forms:
        _LOGGER.warning(
            "the server of %s does not hold replies to a JSON schema: verdicts, ids and Yes or No "
            "are read from free text (constrain=False skips this test)",
            getattr(target, "model_name", None) or type(target).__name__,
        )


def _refused(error: Exception) -> frozenset[Form]:
    """Interpret a failed probe: no forms if the request was rejected, else raise the error."""
    if status_of(error) not in (400, 404, 415, 422, 501):
        raise error
    return _NONE


def _seen(reply: BaseMessage) -> frozenset[Form]:
    """Return the form that a reply followed: some servers ignore what they do not support."""
    try:
        kept = json.loads(str(reply.text)) == {"reply": "violet"}
    except (ValueError, RecursionError):
        kept = False
    return frozenset({"json_schema"}) if kept else _NONE


_REACH = 40
"""Characters looked ahead for a token where the tokens do not add up to the reply's text."""


@dataclass(frozen=True)
class Token:
    """A token's place in the reply and its probability."""

    start: int
    """First character in the reply's text."""
    end: int
    """Behind its last character; equal to `start` for a part of a character."""
    probability: float
    """In [0, 1]."""

    def touches(self, start: int, end: int) -> bool:
        """Return whether the token has a part in the characters from `start` up to `end`."""
        return self.start < end and (self.end > start or self.start == self.end >= start)


def gives_logprobs(model: ChatModel) -> bool:
    """Return whether `model` can report log-probabilities with a call's setting `logprobs=True`.

    True for a chat model with a setting of that name (`ChatOpenAI`, `LlamaCppChat`), for one that
    has it bound, and for one that says so by an attribute `gives_logprobs`.
    """
    if any(settings.get("logprobs") for settings in bound_settings(model)):
        return True
    target = unbound(model)
    if getattr(target, "gives_logprobs", False):
        return True
    return isinstance(target, BaseChatModel) and "logprobs" in type(target).model_fields


def token_probabilities(message: BaseMessage, text: str) -> list[Token] | None:
    """Return the tokens of `text` with their probabilities; None where the reply has none.

    Args:
        message: The model's reply.
        text: The reply's text, as it is or without white space around it. Tokens outside, such
            as an end mark, are left out.

    Raises:
        ModelError: The log-probabilities have another form than OpenAI's.
    """
    logprobs = message.response_metadata.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if not isinstance(content, Sequence):
        return None
    try:
        pieces, chances = _pieces(content), [_probability(entry) for entry in content]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ModelError(
            "cannot read the reply's log-probabilities: the server writes them in another form than "
            f"OpenAI's ({type(error).__name__})"
        ) from error
    begin = "".join(pieces).find(text)
    ends = _added_up(pieces, begin) if begin >= 0 else _searched(pieces, text)
    return [
        Token(max(start, 0), min(end, len(text)), chance)
        for (start, end), chance in zip(ends, chances, strict=True)
        if start < len(text) and end >= 0 and (end > 0 or start == 0)
    ]


def _pieces(content: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the text that each token adds; a character of several tokens comes with the last."""
    if any(entry.get("bytes") is None for entry in content):
        return [str(entry["token"]) for entry in content]
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return [decoder.decode(bytes(entry["bytes"])) for entry in content]


def _added_up(pieces: Sequence[str], begin: int) -> list[tuple[int, int]]:
    spans, start = [], -begin
    for piece in pieces:
        spans.append((start, start + len(piece)))
        start += len(piece)
    return spans


def _searched(pieces: Sequence[str], text: str) -> list[tuple[int, int]]:
    """Find each token after the one before; a missing token gets an empty span there."""
    spans, start = [], 0
    for piece in pieces:
        bare = piece.strip()
        found = text.find(bare, start, start + len(bare) + _REACH) if bare else -1
        end = found + len(bare) if found >= 0 else start
        spans.append((max(found, start), end))
        start = end
    return spans


def _probability(entry: Mapping[str, Any]) -> float:
    logprob = float(entry["logprob"])
    return 0.0 if math.isnan(logprob) else math.exp(min(logprob, 0.0))
