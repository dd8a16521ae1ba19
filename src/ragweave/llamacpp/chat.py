"""`LlamaCppChat`: LangChain's chat model interface to a local GGUF model."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import BaseModel, PrivateAttr
from typing_extensions import override

from ragweave.errors import MissingExtraError, ModelError, UnusableModelError
from ragweave.llamacpp.engine import AsyncInbox, Engine, Inbox, Loader
from ragweave.llamacpp.families import is_base_model
from ragweave.llamacpp.job import Finished, GenerationJob, Piece, Request, Sink
from ragweave.llamacpp.options import LlamaCppFields, Options, call_options
from ragweave.llamacpp.prompt import Encoded, encode_prompt, structured, truncate
from ragweave.llamacpp.vocabulary import Vocabulary
from ragweave.tools.models.tasks import task_of
from ragweave.tools.threads import on_event_loop

if TYPE_CHECKING:
    from ragweave.llamacpp.template import ChatTemplate

_LOGGER = logging.getLogger("ragweave.llamacpp")


def result(finished: Finished, name: str) -> ChatResult:
    """Return a whole reply of the model called `name`."""
    info = _info(finished, name)
    entries = [piece.logprob for piece in finished.pieces if piece.logprob]
    if entries:
        info["logprobs"] = {"content": entries}
    message = AIMessage(
        content="".join(piece.text for piece in finished.pieces) + finished.text,
        additional_kwargs=_thought(finished),
        response_metadata=info,
        usage_metadata=usage(finished),
    )
    return ChatResult(generations=[ChatGeneration(message=message, generation_info=info)])


def chunk(piece: Piece) -> ChatGenerationChunk:
    """Return one piece of a streamed reply."""
    info = {"logprobs": {"content": [piece.logprob]}} if piece.logprob else None
    return ChatGenerationChunk(message=AIMessageChunk(content=piece.text), generation_info=info)


def last_chunk(finished: Finished, name: str) -> ChatGenerationChunk:
    """Return the end of a reply: what was held back, the reason, the counts."""
    message = AIMessageChunk(
        content=finished.text,
        additional_kwargs=_thought(finished),
        usage_metadata=usage(finished),
        chunk_position="last",
    )
    return ChatGenerationChunk(message=message, generation_info=_info(finished, name))


def usage(finished: Finished) -> UsageMetadata:
    """Return the counts; tokens that another call had computed are `cache_read`."""
    return UsageMetadata(
        input_tokens=finished.prompt_tokens,
        output_tokens=finished.reply_tokens,
        total_tokens=finished.prompt_tokens + finished.reply_tokens,
        input_token_details=InputTokenDetails(cache_read=finished.reused_tokens),
    )


def _thought(finished: Finished) -> dict[str, Any]:
    """Return the thinking block under the name that LangChain's packages give it."""
    return {"reasoning_content": finished.thought} if finished.thought else {}


def _info(finished: Finished, name: str) -> dict[str, Any]:
    told = {
        "model_name": name,
        "model_provider": "llamacpp",
        "finish_reason": finished.reason,
    }
    return {**told, "input_cut": True} if finished.cut else told


_FREE_TEXT_TASKS = frozenset({"recall", "reason"})
"""Tasks whose replies are free text."""


class LlamaCppChat(LlamaCppFields):
    """A local GGUF model that many callers use at once.

    Calls from threads and event loops are decoded together, and a prefix that their prompts share
    is computed once. The file's header is read when the object is made; the weights load at the
    first call. Copies and bindings share them.

    Options that a call or `bind` may override: `temperature`, `top_p`, `top_k`, `min_p`,
    `presence_penalty`, `repetition_penalty`, `max_tokens`, `seed`, `stop`, `logprobs`,
    `top_logprobs`, `grammar`, `overflow`, `timeout`, `thinking`, `thinking_tokens`,
    `chat_template_kwargs`; and, without a field, `json_schema` and `response_format`.

    Example:
        >>> model = LlamaCppChat(path="model.gguf", n_ctx=8192)  # doctest: +SKIP
        >>> model.invoke("Name a colour.", max_tokens=8).text  # doctest: +SKIP
    """

    offers_grammar: ClassVar[bool] = True
    """Whether replies can be constrained to a GBNF grammar by `bind(grammar=…)`."""
    takes_seed: ClassVar[bool] = True
    """Whether a call may set the seed of its draw."""

    _loader: Loader = PrivateAttr()
    _template: tuple[str, ChatTemplate] | None = PrivateAttr(default=None)
    """The Jinja source of the template in use, and the compiled template."""

    def __init__(self, **settings: Any) -> None:
        """Read the file's header.

        Raises:
            ModelError: The file is missing, damaged, or makes embeddings only.
            UsageError: A setting is out of range.
        """
        super().__init__(**settings)
        self._loader = Loader(self._facts, self.core_settings())

    @property
    def engine(self) -> Engine:
        """The loaded model, shared with scorers; loads it where that has not happened yet."""
        engine = self._loader.get()
        self.state_context(engine.n_ctx)
        return engine

    @property
    def opened_context(self) -> int | None:
        """Tokens of the context that is open, or that the next call opens; loads no weights.

        None where no call can open one: the call says so itself, unless a cache has its reply. On
        an event loop, which choosing it would block, also None until `choose_context` has run.
        """
        known = self._loader.known_n_ctx
        return known if known is not None or on_event_loop() else self.choose_context()

    @property
    def context_chosen(self) -> bool:
        """Whether it is known which context is open, or which the next call opens."""
        return self._loader.known_n_ctx is not None

    def choose_context(self) -> int | None:
        """Choose the context that the next call opens; return its tokens, or None if none fits.

        Loads llama.cpp's library, the first time on a machine in a child process: that takes about
        a second, so call it in a thread where an event loop runs.
        """
        try:
            return self._loader.n_ctx
        except (MissingExtraError, ModelError):
            return None

    @property
    def placement(self) -> str:
        """One line: where the layers are, the context, the threads. Loads the model."""
        return self.engine.placement

    def close(self) -> None:
        """Free the model; running calls fail, a later call loads it again."""
        self._loader.close()

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        (options, engine), inbox = self._prepared(messages, stop, kwargs), Inbox()
        job = self._job(engine, messages, options, inbox.sink, stream=False)
        with closing(inbox.events(engine, job, options.timeout)) as events:
            return result(_finished(next(events)), self._facts.name)

    @override
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        inbox = AsyncInbox()
        options, engine = await asyncio.to_thread(self._prepared, messages, stop, kwargs)
        job = self._job(engine, messages, options, inbox.sink, stream=False)
        async with aclosing(inbox.events(engine, job, options.timeout)) as events:
            return result(_finished(await anext(events)), self._facts.name)

    @override
    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        (options, engine), inbox = self._prepared(messages, stop, kwargs), Inbox()
        job = self._job(engine, messages, options, inbox.sink, stream=True)
        with closing(inbox.events(engine, job, options.timeout)) as events:
            for event in events:
                if isinstance(event, Piece):
                    yield chunk(event)
                else:
                    yield last_chunk(_finished(event), self._facts.name)
                    return

    @override
    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        inbox = AsyncInbox()
        options, engine = await asyncio.to_thread(self._prepared, messages, stop, kwargs)
        job = self._job(engine, messages, options, inbox.sink, stream=True)
        async with aclosing(inbox.events(engine, job, options.timeout)) as events:
            async for event in events:
                if isinstance(event, Piece):
                    yield chunk(event)
                else:
                    yield last_chunk(_finished(event), self._facts.name)
                    return

    @override
    def with_structured_output(
        self,
        schema: dict[str, Any] | type,
        *,
        include_raw: bool = False,
        method: str = "json_schema",
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, dict[str, Any] | BaseModel]:
        """Return a runnable whose replies are JSON that matches `schema`, enforced by a grammar.

        The grammar holds names, types, enums and lengths. It does not hold the bounds of numbers
        (`minimum`, `maximum`, `multipleOf`) or `uniqueItems`: a pydantic class checks its own when
        the reply is parsed, any other schema leaves that to the caller. A reply cut by
        `max_tokens` raises LangChain's `OutputParserException`, or is a `parsing_error`.

        Args:
            schema: A pydantic class, a TypedDict, or a JSON schema. The model does not see it:
                the prompt should say what the fields mean.
            include_raw: Whether to return `raw`, `parsed` and `parsing_error`.
            method: Part of LangChain's interface; every method uses the same grammar.
            strict: Part of LangChain's interface; a grammar is always strict.
            kwargs: Options to bind, such as `max_tokens`.
        """
        del strict
        return structured(self, schema, method, include_raw=include_raw, options=kwargs)

    @override
    def get_token_ids(self, text: str) -> list[int]:
        """Return the model's own tokens of a text; the base class counts with them."""
        return self.engine.vocabulary.encode(text)

    @override
    def get_num_tokens_from_messages(
        self, messages: list[BaseMessage], tools: Sequence[Any] | None = None
    ) -> int:
        """Return the length of the prompt that the chat template makes of the messages."""
        del tools
        return len(self._encode(messages))

    def free_text_temperature(self, settings: Mapping[str, Any]) -> float:
        """Return the temperature at which a call for free text is decoded, 0 for greedily.

        That is the model card's where `sampling` or thinking asks for it.

        Args:
            settings: The settings of the call, bound ones among them.

        Raises:
            UsageError: A setting is unknown or out of range.
        """
        return self._options([], None, dict(settings)).request.sampling.temperature

    def _prepared(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, overrides: dict[str, Any]
    ) -> tuple[Options, Engine]:
        """Return a call's options and the loaded model, which both may need llama.cpp's library."""
        return self._options(messages, stop, overrides), self.engine

    def _options(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, overrides: dict[str, Any]
    ) -> Options:
        self._source()  # raises before the weights are loaded, which takes long
        fields = self.options()
        options = call_options(fields, stop, overrides)
        if options.request.grammar is not None or not (options.thinking or _is_free_text(messages)):
            return options
        recommended = self.recommended(thinking=options.thinking)
        return call_options({**fields, **recommended}, stop, overrides) if recommended else options

    def _encode(self, messages: Sequence[BaseMessage]) -> list[int]:
        options = self._options(messages, None, {})
        return self._prompt(messages, self.engine.vocabulary, options).tokens

    def _prompt(
        self, messages: Sequence[BaseMessage], vocabulary: Vocabulary, options: Options
    ) -> Encoded:
        template, values = self._compiled(vocabulary), options.template_values
        return encode_prompt(messages, template, vocabulary, values, thinking=options.thinking)

    def _job(
        self,
        engine: Engine,
        messages: Sequence[BaseMessage],
        options: Options,
        sink: Sink,
        *,
        stream: bool,
    ) -> GenerationJob:
        vocabulary, request = engine.vocabulary, options.request
        prompt = self._prompt(messages, vocabulary, options)
        tokens = truncate(
            prompt.tokens, engine.n_ctx, request.max_tokens, options.overflow, vocabulary.start
        )
        cut = len(tokens) < len(prompt.tokens)
        request = _thinking_within(request, engine.n_ctx - len(tokens))
        return GenerationJob(
            tokens, request, vocabulary, sink, stream=stream, marks=prompt.marks, cut=cut
        )

    def _source(self) -> str:
        """Return the chat template in use: Jinja text, or `plain`.

        Raises:
            UnusableModelError: The file has none, and none was given.
        """
        source = self.chat_template or self._facts.template
        if source is None:
            raise UnusableModelError(
                f"{self._facts.path.name} has no chat template, as is common for base models: use "
                "an instruct model, pass a template (chat_template=…), or set chat_template=plain, "
                "which makes the model continue the prompt's text"
            )
        return source

    def _compiled(self, vocabulary: Vocabulary) -> ChatTemplate:
        # jinja2 comes with llama-cpp-python, which is there where a model is loaded.
        from ragweave.llamacpp.template import PLAIN, ChatTemplate

        source = self._source()
        if not self.chat_template and is_base_model(self._facts):
            _warn_of_base_model(self.path)
        source = PLAIN if source == "plain" else source
        if self._template is None or self._template[0] != source:
            names = {
                "bos_token": vocabulary.text(vocabulary.start) if vocabulary.start >= 0 else "",
                "eos_token": vocabulary.text(vocabulary.end) if vocabulary.end >= 0 else "",
            }
            self._template = source, ChatTemplate(source, vocabulary.control_texts, **names)
        return self._template[1]


@cache
def _warn_of_base_model(path: str) -> None:
    """Say once of each file what to expect of it."""
    _LOGGER.warning(
        "%s looks like a base model, which continues text and does not follow instructions, though "
        "it has a chat template: use an instruct model, or set chat_template=plain",
        Path(path).name,
    )


_ENDS_THOUGHTS = 16
"""Tokens that the end of a thinking block takes at most."""


def _thinking_within(request: Request, room: int) -> Request:
    """Return a request whose thoughts leave room for the reply in the context.

    Args:
        request: The request; its thoughts do not count towards `max_tokens`.
        room: Tokens of the context that the prompt leaves.
    """
    reply = min(request.max_tokens or room // 2, room // 2)
    most = max(1, room - reply - _ENDS_THOUGHTS)
    return replace(request, thinking_tokens=min(request.thinking_tokens, most))


def _finished(event: object) -> Finished:
    if not isinstance(event, Finished):
        raise TypeError(f"a reply ended with {event!r}")
    return event


def _is_free_text(messages: Sequence[BaseMessage]) -> bool:
    """Return whether the reply is free text: no verdict, no ids, no short answer."""
    task = task_of(messages)
    if task is None or task["task"] in _FREE_TEXT_TASKS:
        return True
    return task["task"] == "answer" and task.get("answer_type") == "long"
