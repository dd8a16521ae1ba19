"""The settings of a local chat model: pydantic fields, and the options of one call.

`LlamaCppFields` holds the settings that `LlamaCppChat` adds to LangChain's base class.
`call_options` merges them with what a call or `bind` overrides, and checks the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel, LangSmithParams
from langchain_core.language_models.model_profile import ModelProfile
from pydantic import ConfigDict, PrivateAttr
from typing_extensions import override

from ragweave.errors import UnusableModelError, UsageError
from ragweave.llamacpp.core import CoreSettings
from ragweave.llamacpp.families import family_of, thinking_sampling
from ragweave.llamacpp.gguf import GGUFFacts, read_gguf
from ragweave.llamacpp.guard import Repack
from ragweave.llamacpp.job import Request
from ragweave.llamacpp.prompt import Overflow
from ragweave.llamacpp.sampling import Sampling, check_grammar, schema_grammar
from ragweave.tools.models.specs import flag

SAMPLING = (
    *("temperature", "top_p", "top_k", "seed", "min_p"),
    *("presence_penalty", "repetition_penalty"),
)
"""Options that decide how a token is drawn."""

_PASSED_ON = frozenset({"ls_structured_output_format", "stream", "stream_usage"})
"""Options that LangChain adds for its own use."""


@dataclass(frozen=True)
class Options:
    """All settings of one call."""

    request: Request
    overflow: Overflow
    timeout: float | None
    thinking: bool = False
    """Whether the model may think before it answers."""
    template_values: Mapping[str, Any] = field(default_factory=dict)
    """Variables of the chat template besides the messages."""


def call_options(
    fields: Mapping[str, Any], stop: Sequence[str] | None, overrides: Mapping[str, Any]
) -> Options:
    """Return the options of a call.

    Args:
        fields: The model's settings by name.
        stop: Stop sequences of the call; None takes the model's.
        overrides: Bound or given options; `None` keeps the model's setting.

    Raises:
        UsageError: An option is unknown, out of range, or contradicts another.
    """
    given = {k: v for k, v in overrides.items() if v is not None and k not in _PASSED_ON}
    unknown = given.keys() - fields.keys() - {"json_schema", "response_format"}
    if unknown:
        raise UsageError(f"a llama.cpp model has no option {sorted(unknown)[0]!r}")
    settings = _with_thinking({**fields, **given}, fields, given)
    stops = settings["stop"] if stop is None else stop
    _check_types({**settings, "stop": stops})
    max_tokens, top_logprobs = settings["max_tokens"], settings["top_logprobs"]
    if max_tokens is not None and max_tokens < 1:
        raise UsageError(f"max_tokens must be at least 1, not {max_tokens}")
    if top_logprobs < 0:
        raise UsageError(f"top_logprobs must be 0 or more, not {top_logprobs}")
    if settings["overflow"] not in ("error", "drop_start", "drop_middle"):
        raise UsageError(
            f"overflow must be error, drop_start or drop_middle, not {settings['overflow']!r}"
        )
    if settings["thinking_tokens"] < 1:
        raise UsageError(f"thinking_tokens must be at least 1, not {settings['thinking_tokens']}")
    request = Request(
        sampling=Sampling(**{name: settings[name] for name in SAMPLING}),
        max_tokens=max_tokens,
        thinking_tokens=settings["thinking_tokens"],
        stops=tuple([stops] if isinstance(stops, str) else stops or ()),
        grammar=_grammar(settings),
        logprobs=flag("logprobs", settings["logprobs"]),
        top_logprobs=top_logprobs,
    )
    # A grammar constrains the reply from its first token on, which leaves no room to think.
    thinking = flag("thinking", settings["thinking"]) and request.grammar is None
    told = _template_values(settings["chat_template_kwargs"])
    flags = {name: thinking for name in _THINKS if isinstance(told.get(name, False), bool)}
    values = {**told, **flags}
    return Options(request, settings["overflow"], settings["timeout"], thinking, values)


_THINKS = ("enable_thinking", "thinking")
"""What templates call the switch for thinking."""


def _with_thinking(
    settings: dict[str, Any], fields: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return settings with a call's template variables over the model's, and their thinking switch.

    The switch is that of a call before that of the model, and of either a variable before the
    option: a model that thinks since its template says so needs tokens for that too.
    """
    name = "chat_template_kwargs"
    own, call = ({} if one.get(name) is None else one[name] for one in (fields, given))
    if not (isinstance(own, Mapping) and isinstance(call, Mapping)):
        return settings  # the check of types says so
    told = (*_switches(call), given.get("thinking"), *_switches(own), settings["thinking"])
    switch = next((one for one in told if one is not None), False)
    return {**settings, name: {**own, **call}, "thinking": switch}


def _switches(told: Mapping[str, Any]) -> list[bool]:
    return [told[name] for name in _THINKS if isinstance(told.get(name), bool)]


_NUMBERS = ("temperature", "top_p", "min_p", "presence_penalty", "repetition_penalty", "timeout")
_COUNTS = ("max_tokens", "top_k", "seed", "top_logprobs", "thinking_tokens")
_OBJECTS = ("json_schema", "response_format", "chat_template_kwargs")
_RESERVED = ("messages", "tools", "add_generation_prompt")
"""Variables of a chat template that each call sets itself."""


def _check_types(settings: Mapping[str, Any]) -> None:
    """Raise `UsageError` for a value that is not of its option's type."""
    kinds: dict[str, tuple[type | tuple[type, ...], str]] = {
        **dict.fromkeys(_NUMBERS, ((int, float), "a number")),
        **dict.fromkeys(_COUNTS, (int, "a whole number")),
        **dict.fromkeys(_OBJECTS, (Mapping, "an object")),
        "grammar": (str, "a text"),
    }
    for name, (kind, said) in kinds.items():
        value = settings.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
            raise UsageError(f"{name} must be {said}, not {value!r}")
    stops = settings["stop"]
    listed = [stops] if isinstance(stops, str) else stops or ()
    if any(not isinstance(one, str) for one in listed):
        raise UsageError(f"stop must be texts, not {stops!r}")


def _grammar(options: Mapping[str, Any]) -> str | None:
    """Return the grammar that a call asks for, in whichever form."""
    given = {
        key: options[key]
        for key in ("grammar", "json_schema", "response_format")
        if options.get(key) is not None
    }
    if len(given) > 1:
        raise UsageError(f"give only one of {', '.join(sorted(given))}")
    if "json_schema" in given:
        return schema_grammar(given["json_schema"])
    if "response_format" in given:
        return _from_format(given["response_format"])
    if "grammar" in given:
        check_grammar(given["grammar"])
    return given.get("grammar")


def _template_values(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return variables for the template; raise `UsageError` for one that a call sets itself."""
    taken = [name for name in _RESERVED if name in given]
    if taken:
        raise UsageError(f"chat_template_kwargs can't set {taken[0]}: each call sets it itself")
    return given


def check_template(text: str | None) -> None:
    """Check that a chat template is one: plain text would be every prompt.

    Args:
        text: `plain`, Jinja text, or nothing for the file's own.

    Raises:
        UsageError: It is the name of a template or of a file.
    """
    if not text or text == "plain" or "{{" in text or "{%" in text:
        return
    raise UsageError(
        "chat_template must be Jinja text or 'plain', not a name or a file's path: leave it out for "
        "the file's own template, or give a template's text (chat_template=Path(…).read_text())"
    )


def _from_format(form: Mapping[str, Any]) -> str | None:
    """Read a `response_format` as OpenAI's API knows it."""
    kind = form.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return schema_grammar({"type": "object"})
    if kind == "json_schema":
        schema = form.get("json_schema")
        if not isinstance(schema, Mapping) or "schema" not in schema:
            raise UsageError("response_format of type json_schema needs json_schema with a schema")
        return schema_grammar(schema["schema"])
    raise UsageError(f"unknown response_format type {kind!r}")


_OPTIONS = (
    *("temperature", "top_p", "top_k", "seed", "max_tokens", "stop", "logprobs"),
    *("top_logprobs", "grammar", "overflow", "timeout", "min_p", "presence_penalty"),
    *("repetition_penalty", "thinking", "thinking_tokens", "chat_template_kwargs"),
)


class LlamaCppFields(BaseChatModel):
    """Where the model is, how it is loaded, and the defaults of its calls."""

    model_config = ConfigDict(extra="forbid")
    path: str
    """The GGUF file; a relative path becomes absolute."""
    n_gpu_layers: int = -1
    """Layers to put on a GPU, where llama-cpp-python was built for one; -1 for all."""
    n_ctx: int | None = None
    """Tokens in memory for all calls together, which also bounds one call; None takes the model's
    own context, or as much of it as leaves a quarter of the free memory to other models."""
    n_parallel: int = 8
    """Most replies generated at the same time; more calls wait. Attention runs over the tokens of
    all of them, so with a small model on a CPU fewer may be faster."""
    n_kept: int | None = None
    """Most tokens of finished calls that stay in the context for later calls; None takes an eighth of
    it. They slow down all calls that run meanwhile, and leave it for `cache_ram` as soon as a call
    comes that begins otherwise."""
    cache_ram: int | None = None
    """Most MiB of main memory for what finished calls have computed and the context no longer holds;
    a later call with the same beginning copies it back. None: an eighth of the memory that is free
    when the model is loaded, at most 2,048, and nothing where layers are on a GPU; 0 keeps
    nothing."""
    n_batch: int = 512
    """Most tokens computed in one step."""
    n_threads: int | None = None
    """None: one per physical core."""
    flash_attention: bool | None = None
    """None leaves it to llama.cpp."""
    repack: Repack = "auto"
    """Whether llama.cpp may repack weights for this processor: `on`, `off`, or `auto`, which runs
    the model in a child process before its first load, as some builds crash, and uses what
    `ragweave doctor --model` measured to be faster."""
    chat_template: str | None = None
    """Jinja text (not its file) that replaces the file's own; `plain` joins the messages' texts, for a base model
    to continue."""
    chat_template_kwargs: dict[str, Any] | None = None
    """Further variables for the template, such as `{"enable_thinking": False}`."""
    thinking: bool = False
    """Whether a model that can think does so before it answers; the block is not part of the
    reply, it is in `additional_kwargs["reasoning_content"]`. Off where a grammar is set."""
    thinking_tokens: int = 2048
    """Longest thinking block, in tokens; it does not count towards `max_tokens`."""
    sampling: Literal["greedy", "card"] = "greedy"
    """`card` samples free text as the model's card recommends (`families.py`); verdicts, ids and
    short answers stay greedy. Settings given by name take precedence."""
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    max_tokens: int | None = 1024
    """Longest reply, in tokens; None: as long as the context allows."""
    stop: list[str] | None = None
    streaming: bool = False
    """Whether `invoke` streams too, for callbacks that receive tokens."""
    logprobs: bool = False
    """Whether `response_metadata["logprobs"]` has each token's log-probability."""
    top_logprobs: int = 0
    grammar: str | None = None
    """A GBNF grammar that replies must follow."""
    overflow: Overflow = "error"
    """What to do with a prompt that is longer than the context; one that is cut shows by
    `response_metadata["input_cut"]`."""
    timeout: float | None = None
    """Most seconds that a call may take."""

    _facts: GGUFFacts = PrivateAttr()
    _profile_given: bool = PrivateAttr(default=True)

    def __init__(self, **settings: Any) -> None:
        """Check the settings and read the file's header.

        Raises:
            ModelError: The file is missing, damaged, or makes embeddings only.
            UsageError: A setting is out of range.
        """
        if isinstance(settings.get("path"), Path):
            settings["path"] = str(settings["path"])
        super().__init__(**settings)
        check_template(self.chat_template)
        found = read_gguf(self.path)
        # The weights load at the first call, maybe in another working directory.
        self._facts = replace(found, path=found.path.absolute())
        self.path = str(self._facts.path)
        if self._facts.embedding_only:
            name, kind = self._facts.path.name, self._facts.architecture
            raise UnusableModelError(
                f"{name} ({kind}) is an embedding model and does not generate text"
            )
        call_options(self.options(), None, {})
        if self.profile is None:
            self._profile_given = False
            self.state_context(self.n_ctx or self._facts.context)

    @property
    @override
    def _llm_type(self) -> str:
        return "ragweave-llamacpp"

    @property
    @override
    def _identifying_params(self) -> dict[str, Any]:
        """Return what decides a reply: LangChain's caches take it as the key."""
        named = sorted(self.model_fields_set & set(SAMPLING))  # `recommended` leaves these alone
        more = {name: getattr(self, name) for name in ("chat_template", "sampling", "n_ctx")}
        return {"path": self.path, **self.options(), **more, "named": named}

    def options(self) -> dict[str, Any]:
        """Return what a call may override, by name."""
        return {name: getattr(self, name) for name in _OPTIONS}

    def recommended(self, *, thinking: bool) -> dict[str, Any]:
        """Return the model card's sampling of free text, where `sampling` asks for it.

        Thinking always uses the card's sampling: decoded greedily, thoughts repeat themselves.
        """
        if thinking:
            chosen = thinking_sampling(self._facts) or {}
        else:
            family = family_of(self._facts) if self.sampling == "card" else None
            chosen = family.text if family else {}
        return {name: chosen[name] for name in chosen if name not in self.model_fields_set}

    def core_settings(self) -> CoreSettings:
        """Return how the model is loaded.

        Raises:
            UsageError: A setting is out of range.
        """
        return CoreSettings(**{name: getattr(self, name) for name in CoreSettings.__annotations__})

    @override
    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        fields = {**self.options(), **{k: v for k, v in kwargs.items() if v is not None}}
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

    def state_context(self, n_ctx: int | None) -> None:
        """Let the model's profile say how long a prompt may be, unless it was given."""
        stated = (self.profile or {}).get("max_input_tokens")
        if self._profile_given or n_ctx is None or n_ctx == stated:
            return
        self.profile = ModelProfile(
            max_input_tokens=n_ctx, structured_output=True, tool_calling=False
        )
