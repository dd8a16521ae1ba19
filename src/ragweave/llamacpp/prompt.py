"""Prompts and structured replies of a local model.

LangChain messages become the tokens of a prompt that fits the context (`encode_prompt`,
`truncate`); `structured` constrains replies to a JSON schema and parses them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from langchain_core.exceptions import ContextOverflowError, OutputParserException
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import BaseMessage, ChatMessage
from langchain_core.output_parsers import BaseOutputParser, JsonOutputParser, PydanticOutputParser
from langchain_core.outputs import Generation
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.utils.function_calling import convert_to_json_schema
from langchain_core.utils.pydantic import is_basemodel_subclass
from pydantic import BaseModel
from typing_extensions import override

from ragweave.errors import PromptTooLongError as TooLongError
from ragweave.errors import UsageError
from ragweave.llamacpp.vocabulary import Vocabulary
from ragweave.tools.text.reply import open_mark

if TYPE_CHECKING:
    from ragweave.llamacpp.template import ChatTemplate, Message


Overflow = Literal["error", "drop_start", "drop_middle"]
"""What to do with a prompt that is longer than the context."""

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}


_LEAST_ROOM = 16
"""Tokens; a reply with less room is a stump, whatever the prompt asks."""


class PromptTooLongError(TooLongError, ContextOverflowError):
    """A prompt is longer than the model's context."""


def as_template_messages(messages: Sequence[BaseMessage]) -> list[Message]:
    """Return the messages as a chat template reads them: roles and texts.

    Raises:
        UsageError: There is no message, or one contains something other than text.
    """
    if not messages:
        raise UsageError("a model needs at least one message")
    return [{"role": _role(message), "content": _text(message)} for message in messages]


class Encoded(NamedTuple):
    """A prompt as the model reads it."""

    tokens: list[int]
    marks: tuple[str, str] | None
    """The marks of the thinking block that the prompt leaves open."""


def encode_prompt(
    messages: Sequence[BaseMessage],
    template: ChatTemplate,
    vocabulary: Vocabulary,
    values: Mapping[str, Any] | None = None,
    *,
    thinking: bool = True,
) -> Encoded:
    """Render and tokenise messages; only the template itself can produce control tokens.

    Args:
        messages: At least one message.
        template: The model's chat template.
        vocabulary: The model's tokenizer.
        values: Further variables of the template.
        thinking: Whether a thinking block that the template opens stays open.

    Raises:
        UnusableModelError: The template rejects the messages.
        UsageError: A message contains something other than text, or the prompt is empty.
    """
    fragments = template.render(as_template_messages(messages), values)
    marks = open_mark(fragments[-1][0]) if fragments and fragments[-1][1] else None
    if marks is not None and not thinking:
        fragments = [*fragments, (f"\n{marks[1]}\n\n", True)]
        marks = None
    tokens: list[int] = []
    for text, trusted in fragments:
        tokens += vocabulary.encode(text, special=True) if trusted else vocabulary.quoted(text)
    if vocabulary.adds_start and tokens[:1] != [vocabulary.start]:
        tokens.insert(0, vocabulary.start)
    if not tokens:
        raise UsageError("the prompt is empty")
    return Encoded(tokens, marks)


def truncate(
    tokens: list[int], n_ctx: int, max_tokens: int | None, policy: Overflow, start: int = -1
) -> list[int]:
    """Return a prompt that leaves room for a reply in a context of `n_ctx` tokens.

    One that leaves fewer than `_LEAST_ROOM` tokens is too long, unless the reply needs fewer.

    Args:
        tokens: The whole prompt.
        n_ctx: The context.
        max_tokens: Longest reply; a cut prompt leaves room for it, up to a quarter of the context.
        policy: `error`, or which part to drop.
        start: The token with which texts begin for the model, which stays where the prompt has it;
            -1: there is none.

    Raises:
        PromptTooLongError: The prompt is too long and the policy is `error`.
    """
    least = min(max_tokens or _LEAST_ROOM, _LEAST_ROOM, max(1, n_ctx // 4))
    if len(tokens) + least <= n_ctx:
        return tokens
    if policy == "error":
        raise PromptTooLongError(
            f"the prompt has {len(tokens)} tokens, but the context holds {n_ctx}, {least} or more "
            "of them for the reply: shorten the prompt, raise n_ctx, or let it be cut (overflow='drop_middle')"
        )
    quarter = max(1, n_ctx // 4)
    room = max(1, n_ctx - min(max_tokens or quarter, quarter))
    head = room // 2 if policy == "drop_middle" else int(tokens[0] == start and room > 1)
    return tokens[:head] + tokens[len(tokens) - (room - head) :]


def _role(message: BaseMessage) -> str:
    if isinstance(message, ChatMessage):
        return message.role
    kind = message.type.removesuffix("MessageChunk").lower()
    if kind not in _ROLES:
        raise UsageError(f"a local model does not accept messages of type {message.type!r}")
    return _ROLES[kind]


def _text(message: BaseMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    parts: list[str] = []
    for block in message.content:
        if isinstance(block, str):
            parts.append(block)
        elif block.get("type") == "text":
            parts.append(str(block.get("text", "")))
        else:
            raise UsageError(f"a local model accepts only text, not {block.get('type')!r}")
    return "".join(parts)


def _whole(result: Sequence[Generation]) -> Any:
    """Return the value of a JSON reply; LangChain's own parsers complete one that was cut.

    Raises:
        OutputParserException: The reply is not JSON as a whole.
    """
    text, cut = result[0].text.strip(), _cut(result)
    try:
        value = json.loads(text, strict=False)  # the grammar lets control characters through
    except (ValueError, RecursionError) as error:
        raise _unusable(text, cut=cut) from error
    if cut and not isinstance(value, dict | list):
        raise _unusable(text, cut=cut)  # a number may go on
    return value


def _cut(result: Sequence[Generation]) -> bool:
    message = getattr(result[0], "message", None)
    metadata = message.response_metadata if isinstance(message, BaseMessage) else {}
    return metadata.get("finish_reason") == "length"


def _unusable(text: str, *, cut: bool) -> OutputParserException:
    why = "was cut at its limit: raise max_tokens" if cut else "is not JSON"
    return OutputParserException(f"the structured reply {why} ({text!r})", llm_output=text)


class _JsonReply(JsonOutputParser):
    """Parses replies as they stand; a stream still gives what has come so far."""

    @override
    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        if partial and not _cut(result):
            return super().parse_result(result, partial=True)
        return _whole(result)


class _ModelReply(PydanticOutputParser[BaseModel]):
    """Parses replies as they stand into a pydantic class."""

    @override
    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        if partial and not _cut(result):
            return super().parse_result(result, partial=True)
        return self._parse_obj(_whole(result))


METHODS = ("json_schema", "function_calling", "json_mode")


def structured(
    model: BaseChatModel,
    schema: dict[str, Any] | type,
    method: str,
    *,
    include_raw: bool,
    options: Mapping[str, Any],
) -> Runnable[LanguageModelInput, dict[str, Any] | BaseModel]:
    """Return `model` bound to `options` and constrained to `schema`, by the same grammar always.

    A reply that is no JSON as it stands, as when `max_tokens` cut it, raises LangChain's
    `OutputParserException`, or is reported as `parsing_error` where `include_raw` is set.

    Raises:
        UsageError: The method is unknown.
    """
    if method not in METHODS:
        raise UsageError(f"method must be one of {', '.join(METHODS)}, not {method!r}")
    plain = convert_to_json_schema(schema)
    constrained = model.bind(
        json_schema=plain,
        ls_structured_output_format={"kwargs": {"method": method}, "schema": plain},
        **options,
    )
    parser: BaseOutputParser[Any] = _JsonReply()
    if isinstance(schema, type) and is_basemodel_subclass(schema):
        parser = _ModelReply(pydantic_object=schema)
    if not include_raw:
        return constrained | parser
    parsed = RunnablePassthrough.assign(
        parsed=itemgetter("raw") | parser, parsing_error=lambda _: None
    )
    unparsed = RunnablePassthrough.assign(parsed=lambda _: None)
    with_error = parsed.with_fallbacks([unparsed], exception_key="parsing_error")
    return RunnableMap(raw=constrained) | with_error
