"""Ollama's chat models take the settings of a call in one table, `options`.

LangChain's packages for Ollama build that table of the model's own fields, unless a call brings it:
it then stands for all of them, stop sequences too. Any other setting of a call reaches a client
that may not know it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.language_models import BaseChatModel

from ragweave.tools.bindings import bound_settings, unbound
from ragweave.tools.models.roles import ChatModel

_OPTIONS = frozenset(
    {
        *("num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread", "num_keep", "num_predict"),
        *("temperature", "top_k", "top_p", "min_p", "tfs_z", "typical_p", "seed"),
        *("repeat_last_n", "repeat_penalty", "presence_penalty", "frequency_penalty"),
        *("mirostat", "mirostat_eta", "mirostat_tau", "penalize_newline"),
        *("low_vram", "f16_kv", "use_mmap", "use_mlock", "numa"),
    }
)
"""The names of the table, but for `stop`. Source: https://docs.ollama.com/modelfile#parameter, and
`Options` of the package ollama."""


def as_ollama_options(model: ChatModel, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call's settings as the model's client takes them.

    Args:
        model: The model; any other than Ollama's gets the settings as they are.
        settings: The call's settings.
    """
    base = _own_options(model)
    table = {name: value for name, value in settings.items() if name in _OPTIONS}
    stop = settings.get("stop")
    if base is None or not (table or stop):
        return dict(settings)
    options = {**base, **table}
    stops = [base.get("stop"), *(one.get("stop") for one in bound_settings(model)), stop]
    if named := list(dict.fromkeys(text for some in stops for text in some or ())):
        options["stop"] = named
    others = {name: value for name, value in settings.items() if name not in {*table, "stop"}}
    kept = {name: value for name, value in options.items() if value is not None}
    return {**others, "options": kept}


def ollama_context(model: ChatModel) -> int | None:
    """Return the context that a model of Ollama's is set to, in tokens; None where it is not.

    Ollama cuts what goes beyond it, from the front and without a word.
    """
    size = (_own_options(model) or {}).get("num_ctx")
    return size if isinstance(size, int) and size > 0 else None


def _own_options(model: ChatModel) -> Mapping[str, Any] | None:
    """Return the table that a model is bound to, else its own fields; None of any but Ollama's."""
    target = unbound(model)
    fields = type(target).model_fields if isinstance(target, BaseChatModel) else {}
    if "num_predict" not in fields:
        return None
    tables = (one["options"] for one in bound_settings(model) if one.get("options"))
    own = {name: getattr(target, name) for name in sorted(_OPTIONS | {"stop"}) if name in fields}
    return next(tables, own)
