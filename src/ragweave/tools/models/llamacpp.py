"""`LlamaCppChat`: a GGUF file as a LangChain chat model, by llama-cpp-python.

Calls take turns. What a prompt has in common with the call before it is not computed again. For
many calls at once, `llama-server -np 8` with `openai:NAME?base_url=…` is faster.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, ClassVar, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.model_profile import ModelProfile
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ChatMessage
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.utils.function_calling import convert_to_json_schema
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator
from typing_extensions import override

from ragweave.errors import (
    MissingExtraError,
    ModelError,
    PromptTooLongError,
    UnusableModelError,
    UsageError,
)
from ragweave.tools.models.gguf import Header, read_header

CONTEXT = 8192
"""Tokens: the longest context that is opened unless `n_ctx` asks for more."""
_LEAST_ROOM = 16
"""Tokens: a reply with less room is a stump."""
_PLAIN = "{% for message in messages %}{{ message.content }}\n\n{% endfor %}"
_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_OPTIONS = (
    *("temperature", "top_p", "top_k", "min_p", "repeat_penalty", "seed", "max_tokens", "stop"),
    *("grammar", "logprobs", "top_logprobs"),
)
"""What a call or `bind` may override."""


class _Loading(NamedTuple):
    """The settings with which weights are loaded; models that agree in them share the weights."""

    path: str
    n_ctx: int
    n_gpu_layers: int
    n_threads: int | None
    n_batch: int
    flash_attention: bool
    use_extra_bufts: bool


class Weights:
    """The weights of one file and one context, which calls use in turns. Loaded at first use."""

    def __init__(self, loading: _Loading) -> None:
        self.loading = loading
        self._llama: Any = None
        self._load_lock, self._turn_lock = threading.Lock(), threading.Lock()

    def __deepcopy__(self, memo: dict[int, Any]) -> Weights:
        return self

    @property
    def llama(self) -> Any:
        """The `llama_cpp.Llama`, for its tokenizer; its context needs `turn`."""
        with self._load_lock:
            if self._llama is None:
                self._llama = _load(self.loading)
            return self._llama

    @contextmanager
    def turn(self) -> Iterator[Any]:
        """Give the `llama_cpp.Llama` to one caller at a time."""
        with self._turn_lock:
            llama = self.llama
            try:
                yield llama
            except RuntimeError as error:  # llama_decode failed: the context is in no known state
                llama.n_tokens = 0
                raise ModelError(f"llama.cpp failed on {self.loading.path}: {error}") from error

    def close(self) -> None:
        """Free the memory; the next call loads the file again."""
        with self._turn_lock, self._load_lock:
            if self._llama is not None:
                self._llama.close()
            self._llama = None


_WEIGHTS: WeakValueDictionary[_Loading, Weights] = WeakValueDictionary()
_WEIGHTS_LOCK = threading.Lock()


def llama_cpp() -> Any:
    """Return the module `llama_cpp`.

    Raises:
        MissingExtraError: llama-cpp-python is not installed.
        ModelError: Its library does not load.
    """
    try:
        import llama_cpp as module
    except ModuleNotFoundError as error:
        raise MissingExtraError("A GGUF model", "llamacpp") from error
    except (OSError, RuntimeError) as error:  # a CUDA build on a machine without CUDA
        raise ModelError(f"llama-cpp-python can't load its library: {error}") from error
    return module


def _load(loading: _Loading) -> Any:
    lib = llama_cpp()

    class Loaded(lib.Llama):  # type: ignore[misc,name-defined]
        def __setattr__(self, name: str, value: Any) -> None:
            if name == "model_params":
                # Not an argument of `Llama`. Weights repacked for AMX crash (llama.cpp#20824).
                value.use_extra_bufts = loading.use_extra_bufts
            super().__setattr__(name, value)

    cores = os.cpu_count() or 1
    try:
        return Loaded(
            loading.path,
            n_ctx=loading.n_ctx,
            n_gpu_layers=loading.n_gpu_layers,
            n_threads=loading.n_threads or max(min(cores, 2), cores // 2),
            n_threads_batch=loading.n_threads or cores,
            n_batch=loading.n_batch,
            flash_attn=loading.flash_attention,
            verbose=False,
        )
    except (ValueError, RuntimeError, AssertionError) as error:
        raise UnusableModelError(
            f"llama.cpp can't load {loading.path} ({error}): the file may be damaged, of a kind that "
            "this llama-cpp-python does not know, or too large for the memory with this n_ctx"
        ) from error


def reuse_prefix(llama: Any, tokens: Sequence[int]) -> int:
    """Keep what the context has in common with a prompt's beginning; return its length in tokens.

    At most all but the last token, which is computed anew for its logits.
    """
    before = llama.input_ids[: min(llama.n_tokens, len(tokens) - 1)]
    differs = np.flatnonzero(before != np.asarray(tokens[: len(before)]))
    kept = int(differs[0]) if differs.size else len(before)
    lib = llama_cpp()
    if not lib.llama_memory_seq_rm(lib.llama_get_memory(llama.ctx), 0, kept, -1):
        llama.reset()  # the state of a recurrent model can't be cut
        return 0
    llama.n_tokens = kept
    return kept


def log_softmax(llama: Any, position: int = -1) -> NDArray[np.float64]:
    """Return the natural-log probabilities of the next token, shape (vocabulary,).

    Args:
        llama: The model.
        position: A place in the latest batch whose logits were asked for.
    """
    pointer = llama_cpp().llama_get_logits_ith(llama.ctx, position)
    row = np.ctypeslib.as_array(pointer, shape=(llama.n_vocab(),)).astype(np.float64)
    row -= row.max()
    normal: NDArray[np.float64] = row - np.log(np.exp(row).sum())
    return normal


class LlamaCppChat(BaseChatModel):
    """A GGUF file in this process.

    The file's header is read when the object is made; the weights load at the first call, and
    models of the same file and loading settings share them. Replies are greedy unless a
    temperature is set. A call or `bind` may override `temperature`, `top_p`, `top_k`, `min_p`,
    `repeat_penalty`, `seed`, `max_tokens`, `stop`, `grammar`, `logprobs` and `top_logprobs`.

    Raises:
        UnusableModelError: The file is missing, is not GGUF, is cut short, is not the first of a
            split model's files, or makes embeddings.

    Example:
        >>> model = LlamaCppChat(path="model.gguf", n_ctx=4096)  # doctest: +SKIP
        >>> model.invoke("Name a colour.", max_tokens=8).text  # doctest: +SKIP
    """

    model_config = ConfigDict(extra="forbid")
    takes_seed: ClassVar[bool] = True

    path: str
    """The GGUF file; of a split model, the first."""
    n_ctx: int | None = Field(default=None, ge=1)
    """Tokens of prompt and reply; None takes the model's own context, at most 8,192."""
    n_gpu_layers: int = -1
    """Layers to put on a GPU, where llama-cpp-python was built for one; -1 for all."""
    n_threads: int | None = Field(default=None, ge=1)
    """None: half of the processors for replies, at least 2; all of them for prompts."""
    n_batch: int = Field(default=512, ge=1)
    """Most tokens of a prompt that are computed in one step."""
    flash_attention: bool = False
    use_extra_bufts: bool = False
    """Whether llama.cpp repacks weights for this processor, which crashes some builds on a
    processor with AMX (https://github.com/ggml-org/llama.cpp/issues/20824)."""
    chat_template: str | None = None
    """Jinja text in place of the file's own; `plain` joins the messages' texts, for a base model to
    continue."""
    chat_template_kwargs: dict[str, Any] = {"enable_thinking": False}
    """Further variables of the template."""
    temperature: float = Field(default=0.0, ge=0)
    top_p: float = 1.0
    top_k: int = 0
    """Only so many of the likeliest tokens stay; 0 for all."""
    min_p: float = 0.0
    repeat_penalty: float = 1.0
    """Applies to the latest 64 tokens; 1 changes nothing."""
    seed: int | None = None
    """Makes sampling repeatable; None draws afresh."""
    max_tokens: int | None = Field(default=1024, ge=1)
    """Longest reply; None: as long as the context allows."""
    stop: list[str] | None = None
    grammar: str | None = None
    """A GBNF grammar that replies follow
    (https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md)."""
    logprobs: bool = False
    """Whether `response_metadata["logprobs"]["content"]` has the tokens' log-probabilities, in
    OpenAI's form."""
    top_logprobs: int = Field(default=0, ge=0)
    """How many other tokens are listed with each."""

    _header: Header = PrivateAttr()
    _weights: Weights | None = PrivateAttr(default=None)

    def __init__(self, **settings: Any) -> None:
        """Check the settings and read the file's header."""
        super().__init__(**settings)
        self._header = read_header(self.path)
        self.path = str(self._header.path)
        if self._header.embeds:
            raise UnusableModelError(
                f"{self._header.path.name} ({self._header.architecture}) is an embedding model and "
                "does not generate text"
            )
        if self.profile is None:
            self.profile = ModelProfile(
                max_input_tokens=self.context, structured_output=True, tool_calling=False
            )

    @field_validator("path", mode="before")
    @classmethod
    def _as_text(cls, path: object) -> object:
        return str(path) if isinstance(path, Path) else path

    @field_validator("chat_template")
    @classmethod
    def _is_template(cls, text: str | None) -> str | None:
        if text and text != "plain" and "{{" not in text and "{%" not in text:
            raise ValueError("must be Jinja text or 'plain', not a name or a file's path")
        return text

    @property
    def header(self) -> Header:
        """What the file says about itself."""
        return self._header

    @property
    def model_name(self) -> str:
        """The name that the file states."""
        return self._header.name

    @property
    def context(self) -> int:
        """Tokens of prompt and reply."""
        return self.n_ctx or min(self._header.context or CONTEXT, CONTEXT)

    @property
    def weights(self) -> Weights:
        """The weights, which a scorer may share."""
        fields = {name: getattr(self, name) for name in _Loading._fields}
        loading = _Loading(**{**fields, "n_ctx": self.context})
        if self._weights is None or self._weights.loading != loading:
            with _WEIGHTS_LOCK:
                self._weights = _WEIGHTS.setdefault(loading, Weights(loading))
        return self._weights

    def close(self) -> None:
        """Free the weights' memory, also for models that share them; the next call loads them."""
        self.weights.close()

    @property
    @override
    def _llm_type(self) -> str:
        return "llamacpp"

    @property
    @override
    def _identifying_params(self) -> dict[str, Any]:
        named = ("path", "n_ctx", "chat_template", "chat_template_kwargs", *_OPTIONS)
        return {name: getattr(self, name) for name in named}

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        call = self._call(stop, kwargs)
        return _joined(list(self._reply(messages, call, threading.Event())))

    @override
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        async with aclosing(self._pieces(messages, self._call(stop, kwargs))) as pieces:
            return _joined([piece async for piece in pieces])

    @override
    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        # In a thread of its own: a reader that dawdles, or asks again meanwhile, blocks nobody.
        queue: SimpleQueue[ChatGenerationChunk | BaseException | None] = SimpleQueue()
        left = self._start(messages, self._call(stop, kwargs), queue.put)
        try:
            while (piece := queue.get()) is not None:
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            left.set()

    @override
    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        async with aclosing(self._pieces(messages, self._call(stop, kwargs))) as pieces:
            async for piece in pieces:
                yield piece

    async def _pieces(
        self, messages: Sequence[BaseMessage], call: Mapping[str, Any]
    ) -> AsyncIterator[ChatGenerationChunk]:
        queue: asyncio.Queue[ChatGenerationChunk | BaseException | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def put(piece: ChatGenerationChunk | BaseException | None) -> None:
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(queue.put_nowait, piece)

        left = self._start(messages, call, put)
        try:
            while (piece := await queue.get()) is not None:
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            left.set()

    def _start(
        self,
        messages: Sequence[BaseMessage],
        call: Mapping[str, Any],
        put: Callable[[ChatGenerationChunk | BaseException | None], None],
    ) -> threading.Event:
        """Write a reply in a thread until the event that is returned is set."""
        left = threading.Event()

        def write() -> None:
            try:
                for piece in self._reply(messages, call, left):
                    put(piece)
                put(None)
            except BaseException as error:  # noqa: BLE001 - raised where the reply is read
                put(error)

        threading.Thread(target=write, daemon=True).start()
        return left

    def _call(self, stop: list[str] | None, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a call; one given as None is the model's."""
        call = {name: getattr(self, name) for name in _OPTIONS}
        call |= {name: value for name, value in kwargs.items() if value is not None}
        if unknown := call.keys() - {*_OPTIONS, "json_schema"}:
            raise UsageError(f"a llama.cpp model has no option {min(unknown)!r}")
        stops = call["stop"] if stop is None else stop
        return {**call, "stop": [stops] if isinstance(stops, str) else stops or []}

    def _reply(
        self, messages: Sequence[BaseMessage], call: Mapping[str, Any], left: threading.Event
    ) -> Iterator[ChatGenerationChunk]:
        """Yield a reply piece by piece, until `left` is set."""
        with self.weights.turn() as llama:
            tokens = self._tokens(llama, messages)
            room = self.context - len(tokens)
            limit = min(call["max_tokens"] or room, room)
            if limit < min(call["max_tokens"] or _LEAST_ROOM, _LEAST_ROOM):
                raise PromptTooLongError(
                    f"the prompt has {len(tokens)} tokens, but the context holds {self.context}, "
                    "the reply included: shorten the prompt or raise n_ctx"
                )
            reused = reuse_prefix(llama, tokens)
            for at in range(reused, len(tokens), llama.n_batch):
                if left.is_set():
                    return
                llama.eval(tokens[at : at + llama.n_batch])
            writer = _Writer(llama, call)
            for token in _sampled(llama, tokens, call):
                if left.is_set():
                    return
                text = writer.add(token)
                if writer.reason is None and writer.count == limit:
                    writer.reason = "length"
                if writer.reason is not None:
                    break
                if text or writer.entries:
                    yield writer.piece(text)
            yield writer.last(text, len(tokens), reused, self.model_name)

    def _tokens(self, llama: Any, messages: Sequence[BaseMessage]) -> list[int]:
        """Return a prompt's tokens."""
        source = self.chat_template or self._header.template
        if source is None:
            raise UnusableModelError(
                f"{self._header.path.name} has no chat template, as is common for base models: use "
                "an instruct model, give a template (chat_template=…), or set chat_template=plain, "
                "which makes the model continue the prompt's text"
            )
        turns = [{"role": _role(one), "content": _harmless(llama, _text(one))} for one in messages]
        text = self._rendered(llama, _PLAIN if source == "plain" else source, turns)
        tokens: list[int] = llama.tokenize(text.encode(), add_bos=False, special=True)
        lib, start = llama_cpp(), llama.token_bos()
        if lib.llama_vocab_get_add_bos(_vocabulary(llama)) and tokens[:1] != [start]:
            tokens.insert(0, start)
        if not tokens:
            raise UsageError("the prompt is empty")
        return tokens

    def _rendered(self, llama: Any, source: str, turns: list[dict[str, str]]) -> str:
        from jinja2 import TemplateError

        start, end = (
            llama.detokenize([token], special=True).decode() if token >= 0 else ""
            for token in (llama.token_bos(), llama.token_eos())
        )
        try:
            format_chat = _formatter(source, start, end)
            try:
                prompt = format_chat(messages=turns, **self.chat_template_kwargs).prompt
            except (TemplateError, ValueError):
                if turns[0]["role"] != "system" or len(turns) < 2:
                    raise
                # Some templates refuse a system message: it begins the user's turn.
                (first, second), rest = turns[:2], turns[2:]
                joined = {**second, "content": f"{first['content']}\n\n{second['content']}"}
                prompt = format_chat(messages=[joined, *rest], **self.chat_template_kwargs).prompt
        except (TemplateError, ValueError, TypeError) as error:
            name = self._header.path.name
            raise UnusableModelError(f"the chat template of {name} failed: {error}") from error
        return str(prompt)

    @override
    def get_token_ids(self, text: str) -> list[int]:
        """Return the model's own tokens of a text."""
        tokens: list[int] = self.weights.llama.tokenize(text.encode(), add_bos=False)
        return tokens

    @override
    def get_num_tokens_from_messages(
        self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None, **_: Any
    ) -> int:
        """Return the length of the prompt that the chat template makes of the messages."""
        return len(self._tokens(self.weights.llama, messages))

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

        The model does not see the schema: the prompt should say what the fields mean. The grammar
        holds names, types, enums and lengths, but no bounds of numbers; a pydantic class checks
        those when the reply is parsed.

        Args:
            schema: A pydantic class, a TypedDict, or a JSON schema.
            include_raw: Whether to return `raw`, `parsed` and `parsing_error`.
            method: Part of LangChain's interface; every method uses the same grammar.
            strict: Part of LangChain's interface; a grammar is always strict.
            kwargs: Options to bind, such as `max_tokens`.

        Raises:
            OutputParserException: When called, a reply was cut or does not fit the class, and
                `include_raw` is not set.
        """
        plain = convert_to_json_schema(schema)
        form = {"kwargs": {"method": method}, "schema": plain}
        constrained = self.bind(json_schema=plain, ls_structured_output_format=form, **kwargs)
        kind = schema if isinstance(schema, type) and issubclass(schema, BaseModel) else None
        return constrained | RunnableLambda(partial(_parsed, kind=kind, include_raw=include_raw))


def _parsed(message: BaseMessage, *, kind: type[BaseModel] | None, include_raw: bool) -> Any:
    value, failed = None, None
    try:
        value = json.loads(message.text, strict=False)  # the grammar allows control characters
        value = kind.model_validate(value) if kind else value
    except (ValueError, RecursionError) as error:
        cut = message.response_metadata.get("finish_reason") == "length"
        why = "was cut at its limit: raise max_tokens" if cut else f"does not fit: {error}"
        failed = OutputParserException(f"the structured reply {why}", llm_output=message.text)
        failed.__cause__ = error
    if include_raw:
        return {
            "raw": message,
            "parsed": value if failed is None else None,
            "parsing_error": failed,
        }
    if failed is not None:
        raise failed
    return value


class _Writer:
    """A reply as it grows: whole characters up to a stop sequence."""

    def __init__(self, llama: Any, call: Mapping[str, Any]) -> None:
        self._llama, self._call = llama, call
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self.entries: list[dict[str, Any]] = []
        self.reason: str | None = None
        self.count = 0

    def add(self, token: int) -> str:
        """Take a token, and return the text that can no longer become part of a stop sequence."""
        self.count += 1
        if llama_cpp().llama_vocab_is_eog(_vocabulary(self._llama), token):
            self.reason = "stop"
            return ""
        data = self._llama.detokenize([token], special=True)
        if self._call["logprobs"]:
            self.entries.append(self._entry(token, data))
        text = self._held + self._decoder.decode(data)
        stops = self._call["stop"]
        if found := [at for at in map(text.find, stops) if at >= 0]:
            self.reason, self._held = "stop", ""
            return text[: min(found)]
        kept = max(
            (n for one in stops for n in range(1, len(one)) if text.endswith(one[:n])), default=0
        )
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]

    def piece(self, text: str) -> ChatGenerationChunk:
        """Return a piece of the reply, with the log-probabilities since the last one."""
        info = {"logprobs": {"content": self.entries}} if self.entries else None
        self.entries = []
        return ChatGenerationChunk(message=AIMessageChunk(text), generation_info=info)

    def last(self, text: str, prompt: int, reused: int, name: str) -> ChatGenerationChunk:
        """Return the end of the reply: what was held back, why it ended, and the counts."""
        piece = self.piece(text + self._held + self._decoder.decode(b"", final=True))
        piece.message = AIMessageChunk(
            piece.text,
            usage_metadata=UsageMetadata(
                input_tokens=prompt,
                output_tokens=self.count,
                total_tokens=prompt + self.count,
                input_token_details=InputTokenDetails(cache_read=reused),
            ),
            chunk_position="last",
        )
        info = {"finish_reason": self.reason, "model_name": name, "model_provider": "llamacpp"}
        piece.generation_info = {**(piece.generation_info or {}), **info}
        return piece

    def _entry(self, token: int, data: bytes) -> dict[str, Any]:
        row = log_softmax(self._llama)
        best = np.argsort(-row)[: self._call["top_logprobs"]] if self._call["top_logprobs"] else ()
        others = [(int(one), self._llama.detokenize([int(one)], special=True)) for one in best]
        return {
            **_named(row[token], data),
            "top_logprobs": [_named(row[one], text) for one, text in others],
        }


def _named(logprob: float, data: bytes) -> dict[str, Any]:
    text = data.decode("utf-8", "replace")
    return {"token": text, "bytes": list(data), "logprob": float(logprob)}


def _sampled(llama: Any, tokens: Sequence[int], call: Mapping[str, Any]) -> Iterator[int]:
    lib = llama_cpp()
    seed = call["seed"]
    llama.set_seed(lib.LLAMA_DEFAULT_SEED if seed is None else seed)
    written: Iterator[int] = llama.generate(
        tokens,
        temp=call["temperature"],
        top_p=call["top_p"],
        top_k=call["top_k"],
        min_p=call["min_p"],
        repeat_penalty=call["repeat_penalty"],
        grammar=_grammar(llama, call),
    )
    return written


def _grammar(llama: Any, call: Mapping[str, Any]) -> Any:
    """Return the grammar that a call asks for, or None."""
    lib, text, schema = llama_cpp(), call["grammar"], call.get("json_schema")
    if schema is not None:
        try:
            text = lib.llama_grammar.json_schema_to_gbnf(json.dumps(schema))
        except (KeyError, TypeError, ValueError, AssertionError) as error:
            raise UsageError(f"this JSON schema can't be turned into a grammar: {error}") from error
    if text is None:
        return None
    sampler = lib.llama_sampler_init_grammar(_vocabulary(llama), text.encode(), b"root")
    if not sampler:
        raise UsageError(f"llama.cpp can't parse this grammar: {text[:200]}")
    lib.llama_sampler_free(sampler)
    return lib.LlamaGrammar.from_string(text, verbose=False)


def _joined(pieces: Sequence[ChatGenerationChunk]) -> ChatResult:
    """Return a whole reply; much faster than adding chunks."""
    last = pieces[-1]
    info = dict(last.generation_info or {})
    logs = [(one.generation_info or {}).get("logprobs", {}).get("content", ()) for one in pieces]
    if entries := [entry for log in logs for entry in log]:
        info["logprobs"] = {"content": entries}
    message = AIMessage(
        "".join(one.text for one in pieces),
        response_metadata=info,
        usage_metadata=last.message.usage_metadata,  # type: ignore[attr-defined]
    )
    return ChatResult(generations=[ChatGeneration(message=message, generation_info=info)])


def _vocabulary(llama: Any) -> Any:
    return llama_cpp().llama_model_get_vocab(llama.model)


def _harmless(llama: Any, text: str) -> str:
    """Return a message's text with the names of control tokens spelled as plain text."""
    lib, vocabulary = llama_cpp(), _vocabulary(llama)
    for token in set(llama.tokenize(text.encode(), add_bos=False, special=True)):
        if lib.llama_vocab_get_attr(vocabulary, token) & lib.LLAMA_TOKEN_ATTR_CONTROL:
            name = llama.detokenize([token], special=True).decode()
            text = text.replace(name, f"{name[:1]} {name[1:]}")
    return text


@lru_cache(maxsize=8)
def _formatter(source: str, start: str, end: str) -> Any:
    """Return the template's function, in llama-cpp-python's sandbox."""
    formats = llama_cpp().llama_chat_format
    return formats.Jinja2ChatFormatter(template=source, bos_token=start, eos_token=end)


def _role(message: BaseMessage) -> str:
    if isinstance(message, ChatMessage):
        return message.role
    kind = message.type.removesuffix("MessageChunk").lower()
    if kind not in _ROLES:
        raise UsageError(f"a local model does not accept messages of type {message.type!r}")
    return _ROLES[kind]


def _text(message: BaseMessage) -> str:
    blocks = [message.content] if isinstance(message.content, str) else message.content
    for block in blocks:
        if not isinstance(block, str) and block.get("type") != "text":
            raise UsageError(f"a local model accepts only text, not {block.get('type')!r}")
    return "".join(one if isinstance(one, str) else str(one.get("text", "")) for one in blocks)
