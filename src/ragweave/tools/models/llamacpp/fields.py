"""The settings of a local chat model, as LangChain's pydantic models hold them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel, LangSmithParams
from langchain_core.language_models.model_profile import ModelProfile
from pydantic import ConfigDict, PrivateAttr
from typing_extensions import override

from ragweave.errors import UnusableModelError
from ragweave.tools.models.llamacpp.core import CoreSettings
from ragweave.tools.models.llamacpp.families import family_of
from ragweave.tools.models.llamacpp.gguf import GGUFFacts, read_gguf
from ragweave.tools.models.llamacpp.guard import Repack
from ragweave.tools.models.llamacpp.options import call_options
from ragweave.tools.models.llamacpp.prompt import Overflow

_OPTIONS = (
    *("temperature", "top_p", "top_k", "seed", "max_tokens", "stop", "logprobs"),
    *("top_logprobs", "grammar", "overflow", "timeout", "min_p", "presence_penalty"),
    *("repetition_penalty", "thinking", "thinking_tokens", "chat_template_kwargs"),
)


class LlamaCppFields(BaseChatModel):
    """Where the model is, how it is loaded, and what its calls do unless they say otherwise."""

    model_config = ConfigDict(extra="forbid")
    path: str
    """The GGUF file."""
    n_gpu_layers: int = -1
    """Layers to put on a GPU, where llama-cpp-python was built for one; -1 for all."""
    n_ctx: int | None = None
    """Tokens in memory for all calls together, which also bounds one call; None takes the model's
    own context, or as much of it as fits the memory."""
    n_parallel: int = 8
    """Most replies written at the same time; more wait. Attention runs over the tokens of all of
    them, so that with a small model on a CPU fewer may be faster."""
    n_kept: int | None = None
    """Most tokens of finished calls that stay computed for later ones with the same beginning;
    None takes an eighth of the context, for what is kept slows all that is written meanwhile."""
    n_batch: int = 512
    """Most tokens computed in one step."""
    n_threads: int | None = None
    """None takes one a physical core."""
    flash_attention: bool | None = None
    """None leaves it to llama.cpp."""
    repack: Repack = "auto"
    """Whether llama.cpp may repack weights for this processor: `on`, `off`, or `auto`, which tries
    it in a child process where a build is known to crash by it."""
    chat_template: str | None = None
    """Jinja text that replaces the file's own; `plain` joins the messages' texts, which a base
    model goes on with."""
    chat_template_kwargs: dict[str, Any] | None = None
    """What the template is told beside the messages, such as `{"enable_thinking": False}`."""
    thinking: bool = False
    """Whether a model that can think does so before it answers; the block is no part of the reply,
    it stands in `additional_kwargs["reasoning_content"]`. Off where a grammar holds the reply."""
    thinking_tokens: int = 2048
    """Longest thinking block, in tokens; it does not count for `max_tokens`."""
    sampling: Literal["greedy", "card"] = "greedy"
    """`card` samples free text as the model's card recommends (`families.py`); verdicts, ids and
    short answers stay greedy. What is set by name counts before either."""
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
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

    _facts: GGUFFacts = PrivateAttr()

    def __init__(self, **settings: Any) -> None:
        """Check the settings and read the file's header.

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
            raise UnusableModelError(f"{name} ({kind}) makes embeddings, no text")
        call_options(self.options(), None, {})
        if self.profile is None:
            self.profile = self._resolve_model_profile()

    @property
    @override
    def _llm_type(self) -> str:
        return "ragweave-llamacpp"

    @property
    @override
    def _identifying_params(self) -> dict[str, Any]:
        return {"path": self.path, **self.options()}

    def options(self) -> dict[str, Any]:
        """Return what a call may override, by name."""
        return {name: getattr(self, name) for name in _OPTIONS}

    def recommended(self, *, thinking: bool) -> dict[str, Any]:
        """Return the sampling of free text by the model's card, where `sampling` asks for it.

        Thinking samples as the card says in any case: thought without chance turns in circles.
        """
        family = family_of(self._facts)
        if family is None or (self.sampling != "card" and not thinking):
            return {}
        wanted = family.thinking if thinking and family.thinking else family.text
        return {name: wanted[name] for name in wanted if name not in self.model_fields_set}

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

    @override
    def _resolve_model_profile(self) -> ModelProfile | None:
        # LangChain asks before the header is read, and again when it was.
        context = None if not hasattr(self, "_facts") else self.n_ctx or self._facts.context
        if context is None:
            return None
        return {"max_input_tokens": context, "structured_output": True, "tool_calling": False}
