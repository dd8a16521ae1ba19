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
    target = unbound(model)
    fields = type(target).model_fields if isinstance(target, BaseChatModel) else {}
    table = {name: value for name, value in settings.items() if name in _OPTIONS}
    stop = settings.get("stop")
    if "num_predict" not in fields or not (table or stop):
        return dict(settings)
    bound = list(bound_settings(model))
    base: Mapping[str, Any] | None = next(
        (one["options"] for one in bound if one.get("options")), None
    )
    if base is None:
        base = {
            name: getattr(target, name) for name in sorted(_OPTIONS | {"stop"}) if name in fields
        }
    options = {**base, **table}
    stops = [base.get("stop"), *(one.get("stop") for one in bound), stop]
    if named := list(dict.fromkeys(text for some in stops for text in some or ())):
        options["stop"] = named
    others = {name: value for name, value in settings.items() if name not in {*table, "stop"}}
    kept = {name: value for name, value in options.items() if value is not None}
    return {**others, "options": kept}
