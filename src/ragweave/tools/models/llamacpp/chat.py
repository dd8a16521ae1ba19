"""The chat model: LangChain's interface to a local GGUF model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any, ClassVar

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams, LanguageModelInput
from langchain_core.language_models.model_profile import ModelProfile
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import BaseModel, ConfigDict, PrivateAttr
from typing_extensions import override

from ragweave.errors import ModelError
from ragweave.tools.models.llamacpp.core import CoreSettings
from ragweave.tools.models.llamacpp.engine import AsyncInbox, Engine, Inbox, Loader
from ragweave.tools.models.llamacpp.generation import Finished, GenerationJob, Piece
from ragweave.tools.models.llamacpp.gguf import GGUFFacts, read_gguf
from ragweave.tools.models.llamacpp.job import Sink
from ragweave.tools.models.llamacpp.options import Options, call_options
from ragweave.tools.models.llamacpp.prompt import Overflow, encode_prompt, fit
from ragweave.tools.models.llamacpp.replies import chunk, last_chunk, result
from ragweave.tools.models.llamacpp.structured import structured
from ragweave.tools.models.llamacpp.template import ChatTemplate
from ragweave.tools.models.llamacpp.vocabulary import Vocabulary


class LlamaCppChat(BaseChatModel):
    """A local GGUF model that many callers use at once.

    Calls from threads and event loops are decoded together, and what their prompts begin with in
    common is computed once. The file's header is read when the object is made; the weights load
    at the first call. Copies and bindings share them.

    Options that a call or `bind` may override: `temperature`, `top_p`, `top_k`, `max_tokens`,
    `seed`, `stop`, `logprobs`, `top_logprobs`, `grammar`, `overflow`, `timeout`; and, without a
    field, `json_schema` and `response_format`.

    Example:
        >>> model = LlamaCppChat(path="model.gguf", n_ctx=8192)  # doctest: +SKIP
        >>> model.invoke("Name a colour.", max_tokens=8).text  # doctest: +SKIP
    """

    model_config = ConfigDict(extra="forbid")
    offers_grammar: ClassVar[bool] = True
    """Whether replies can be held to a GBNF grammar by `bind(grammar=…)`."""

    path: str
    """The GGUF file."""
    n_gpu_layers: int = -1
    """Layers to put on a GPU, where llama-cpp-python was built for one; -1 for all."""
    n_ctx: int | None = None
    """Tokens in memory for all calls together, which also bounds one call; None takes the model's
    own context, or as much of it as fits the memory."""
    n_parallel: int = 8
    """Most replies written at the same time; more wait."""
    n_kept: int | None = None
    """Most tokens of finished calls that stay computed for later ones with the same beginning;
    None takes a quarter of the context, for what is kept slows all that is written meanwhile."""
    n_batch: int = 512
    """Most tokens computed in one step."""
    n_threads: int | None = None
    """None takes one a physical core."""
    flash_attention: bool | None = None
    """None leaves it to llama.cpp."""
    chat_template: str | None = None
    """Jinja text that replaces the file's own."""
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    max_tokens: int | None = 1024
    """Longest reply; None goes on to the end of the context."""
    stop: list[str] | None = None
    streaming: bool = False
    """Whether `invoke` streams too, for callbacks that listen to tokens."""
    logprobs: bool = False
    """Whether `response_metadata["logprobs"]` names each token's log-probability."""
    top_logprobs: int = 0
    grammar: str | None = None
    """A GBNF grammar that replies are held to."""
    overflow: Overflow = "error"
    """What becomes of a prompt that is longer than the context."""
    timeout: float | None = None
    """Most seconds that a call may take."""

    _loader: Loader = PrivateAttr()
    _facts: GGUFFacts = PrivateAttr()
    _template: tuple[str, ChatTemplate] | None = PrivateAttr(default=None)
    """The template in use, and the Jinja text that it was made of."""

    def __init__(self, **settings: Any) -> None:
        """Read the file's header.

        Raises:
            ModelError: The file is missing, damaged, or makes embeddings only.
            UsageError: A setting is out of range.
        """
        if isinstance(settings.get("path"), Path):
            settings["path"] = str(settings["path"])
        super().__init__(**settings)
        self._facts = read_gguf(self.path)
        if self._facts.embedding_only:
            name, kind = self._facts.path.name, self._facts.architecture
            raise ModelError(f"{name} ({kind}) makes embeddings, no text")
        call_options(self._fields(), None, {})
        self._loader = Loader(
            self.path,
            CoreSettings(**{name: getattr(self, name) for name in CoreSettings.__annotations__}),
        )
        if self.profile is None:
            self.profile = self._resolve_model_profile()

    @property
    @override
    def _llm_type(self) -> str:
        return "ragweave-llamacpp"

    @property
    @override
    def _identifying_params(self) -> dict[str, Any]:
        return {"path": self.path, **self._fields()}

    @property
    def engine(self) -> Engine:
        """The loaded model, shared with scorers; loads it where that has not happened yet."""
        return self._loader.get()

    @property
    def placement(self) -> str:
        """One line: where the layers are, the context, the threads. Loads the model."""
        return self.engine.placement

    def close(self) -> None:
        """Free the model; calls in work fail, a later call loads it again."""
        self._loader.close()

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        options, inbox = self._options(stop, kwargs), Inbox()
        job = self._job(messages, options, inbox.sink, stream=False)
        with closing(inbox.events(self.engine, job, options.timeout)) as events:
            return result(_finished(next(events)), self._facts.name)

    @override
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        options, inbox = self._options(stop, kwargs), AsyncInbox()
        engine = await asyncio.to_thread(lambda: self.engine)
        job = self._job(messages, options, inbox.sink, stream=False)
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
        options, inbox = self._options(stop, kwargs), Inbox()
        job = self._job(messages, options, inbox.sink, stream=True)
        with closing(inbox.events(self.engine, job, options.timeout)) as events:
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
        options, inbox = self._options(stop, kwargs), AsyncInbox()
        engine = await asyncio.to_thread(lambda: self.engine)
        job = self._job(messages, options, inbox.sink, stream=True)
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
        """Return a runnable whose replies are JSON of `schema`, held to by a grammar.

        Args:
            schema: A pydantic class, a TypedDict, or a JSON schema. The model is not told of it:
                the prompt should say what the fields mean.
            include_raw: Whether to return `raw`, `parsed` and `parsing_error`.
            method: Accepted for LangChain's sake; every method comes to the same grammar.
            strict: Accepted for LangChain's sake; a grammar is always strict.
            kwargs: Options to bind, such as `max_tokens`.
        """
        del strict
        model = self.model_copy(update=kwargs) if kwargs else self
        return structured(model, schema, method, include_raw=include_raw)

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

    @override
    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        fields = {**self._fields(), **{k: v for k, v in kwargs.items() if v is not None}}
        params = LangSmithParams(
            ls_provider="llamacpp",
            ls_model_name=str(kwargs.get("model") or self._facts.name),
            ls_model_type="chat",
            ls_temperature=fields["temperature"],
        )
        if fields["max_tokens"] is not None:
            params["ls_max_tokens"] = fields["max_tokens"]
        if stop or fields["stop"]:
            params["ls_stop"] = stop or fields["stop"]
        return params

    @override
    def _resolve_model_profile(self) -> ModelProfile | None:
        # LangChain asks before the header is read, and again when it was.
        context = None if not hasattr(self, "_facts") else self.n_ctx or self._facts.context
        if context is None:
            return None
        return {"max_input_tokens": context, "structured_output": True, "tool_calling": False}

    def _fields(self) -> dict[str, Any]:
        names = ("temperature", "top_p", "top_k", "seed", "max_tokens", "stop", "logprobs")
        more = ("top_logprobs", "grammar", "overflow", "timeout")
        return {name: getattr(self, name) for name in (*names, *more)}

    def _options(self, stop: list[str] | None, overrides: dict[str, Any]) -> Options:
        return call_options(self._fields(), stop, overrides)

    def _encode(self, messages: Sequence[BaseMessage]) -> list[int]:
        words = self.engine.vocabulary
        return encode_prompt(messages, self._compiled(words), words)

    def _job(
        self, messages: Sequence[BaseMessage], options: Options, sink: Sink, *, stream: bool
    ) -> GenerationJob:
        engine, request = self.engine, options.request
        tokens = fit(self._encode(messages), engine.n_ctx, request.max_tokens, options.overflow)
        return GenerationJob(tokens, request, engine.vocabulary, sink, stream=stream)

    def _compiled(self, words: Vocabulary) -> ChatTemplate:
        source = self.chat_template or self._facts.template
        if source is None:
            raise ModelError(
                f"{self._facts.path.name} holds no chat template: give one (chat_template=…)"
            )
        if self._template is None or self._template[0] != source:
            names = {
                "bos_token": words.text(words.start) if words.start >= 0 else "",
                "eos_token": words.text(words.end) if words.end >= 0 else "",
            }
            self._template = source, ChatTemplate(source, words.control_texts, **names)
        return self._template[1]


def _finished(event: object) -> Finished:
    if not isinstance(event, Finished):
        raise TypeError(f"a reply ended with {event!r}")
    return event
