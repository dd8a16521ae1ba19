"""From LangChain messages to the tokens of a prompt that fits.

Replies as objects: a JSON schema held to by a grammar, and read back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import BaseMessage, ChatMessage
from langchain_core.output_parsers import BaseOutputParser, JsonOutputParser, PydanticOutputParser
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.utils.function_calling import convert_to_json_schema
from langchain_core.utils.pydantic import is_basemodel_subclass
from pydantic import BaseModel

from ragweave.errors import UsageError
from ragweave.llamacpp.vocabulary import Vocabulary
from ragweave.tools.text.reply import open_mark

if TYPE_CHECKING:
    from ragweave.llamacpp.template import ChatTemplate, Message


Overflow = Literal["error", "drop_start", "drop_middle"]
"""What becomes of a prompt that is longer than the context."""

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}


class PromptTooLongError(UsageError, ContextOverflowError):
    """A prompt is longer than the model's context."""


def as_template_messages(messages: Sequence[BaseMessage]) -> list[Message]:
    """Return what a chat template reads: roles and texts.

    Raises:
        UsageError: There is no message, or one holds what is no text.
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
    """Render and tokenise messages; only the template's own control tokens become such.

    Args:
        messages: At least one message.
        template: The model's chat template.
        vocabulary: The model's tokenizer.
        values: What the template is told beside the messages.
        thinking: Whether a thinking block that the template opens stays open.

    Raises:
        UnusableModelError: The template refuses the messages.
        UsageError: A message holds what is no text, or the prompt is empty.
    """
    fragments = template.render(as_template_messages(messages), values)
    marks = open_mark(fragments[-1][0]) if fragments and fragments[-1][1] else None
    if marks is not None and not thinking:
        fragments = [*fragments, (f"\n{marks[1]}\n\n", True)]
        marks = None
    tokens: list[int] = []
    for text, trusted in fragments:
        tokens += vocabulary.encode(text, special=trusted)
    if vocabulary.adds_start and tokens[:1] != [vocabulary.start]:
        tokens.insert(0, vocabulary.start)
    if not tokens:
        raise UsageError("the prompt is empty")
    return Encoded(tokens, marks)


def fit(tokens: list[int], n_ctx: int, max_tokens: int | None, policy: Overflow) -> list[int]:
    """Return a prompt that leaves room for a reply in a context of `n_ctx` tokens.

    Args:
        tokens: The whole prompt.
        n_ctx: The context.
        max_tokens: Longest reply; a trimmed prompt leaves it room, up to a quarter of the context.
        policy: `error`, or which part to drop.

    Raises:
        PromptTooLongError: The prompt is too long and the policy is `error`.
    """
    if len(tokens) < n_ctx:
        return tokens
    if policy == "error":
        raise PromptTooLongError(
            f"the prompt has {len(tokens)} tokens and the context holds {n_ctx}, reply included: "
            "shorten it, raise n_ctx, or choose what to drop (overflow='drop_middle')"
        )
    quarter = max(1, n_ctx // 4)
    room = max(1, n_ctx - min(max_tokens or quarter, quarter))
    head = room // 2 if policy == "drop_middle" else 0
    return tokens[:head] + tokens[len(tokens) - (room - head) :]


def _role(message: BaseMessage) -> str:
    if isinstance(message, ChatMessage):
        return message.role
    kind = message.type.removesuffix("MessageChunk").lower()
    if kind not in _ROLES:
        raise UsageError(f"a local model takes no message of type {message.type!r}")
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
            raise UsageError(f"a local model takes text only, not {block.get('type')!r}")
    return "".join(parts)


METHODS = ("json_schema", "function_calling", "json_mode")


def structured(
    model: BaseChatModel,
    schema: dict[str, Any] | type,
    method: str,
    *,
    include_raw: bool,
    options: Mapping[str, Any],
) -> Runnable[LanguageModelInput, dict[str, Any] | BaseModel]:
    """Return `model`, bound to `options` and held to `schema`, whichever method is named.

    Raises:
        UsageError: The method is not known.
    """
    if method not in METHODS:
        raise UsageError(f"method must be one of {', '.join(METHODS)}, not {method!r}")
    plain = convert_to_json_schema(schema)
    held = model.bind(
        json_schema=plain,
        ls_structured_output_format={"kwargs": {"method": method}, "schema": plain},
        **options,
    )
    parser: BaseOutputParser[Any] = JsonOutputParser()
    if isinstance(schema, type) and is_basemodel_subclass(schema):
        parser = PydanticOutputParser(pydantic_object=schema)
    if not include_raw:
        return held | parser
    read = RunnablePassthrough.assign(
        parsed=itemgetter("raw") | parser, parsing_error=lambda _: None
    )
    unread = RunnablePassthrough.assign(parsed=lambda _: None)
    return RunnableMap(raw=held) | read.with_fallbacks([unread], exception_key="parsing_error")
