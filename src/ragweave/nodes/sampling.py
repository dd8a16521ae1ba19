"""How a call draws its words: temperature, nucleus and seed, by the options and the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragweave.nodes.options import Options
from ragweave.tools.bindings import bound_settings, unbound
from ragweave.tools.models import ChatModel, Role
from ragweave.tools.models.specs import takes_temperature


def call_sampling(
    role: Role, own: Mapping[str, Any], model: ChatModel, options: Options
) -> dict[str, Any]:
    """Return the settings of a call: its own, behind what the options want of every call.

    A model that refuses a temperature is told of a draw only where an option asks for it.
    """
    nucleus = options.nucleus if role == "answer" else {}
    papers = options.paper_sampling
    settings = {**papers, **nucleus, **own}
    if not takes_temperature(model):
        chosen = _DRAWS.get(role, {})
        unasked = {one for one in ("temperature", "top_p") if chosen.get(one) not in options.given}
        settings = {name: one for name, one in settings.items() if name not in unasked}
    if settings.get("top_p") and settings.get("temperature") is None and _is_greedy(model):
        settings["temperature"] = _NUCLEUS_TEMPERATURE
    return {name: value for name, value in settings.items() if value is not None}


_DRAWS: Mapping[Role, Mapping[str, str]] = {
    "answer": {"temperature": "sample_temperature", "top_p": "top_p"},
    "proxy": {"temperature": "proxy_temperature", "top_p": "proxy_top_p"},
}
"""The options that ask for a draw; models that refuse a temperature are told none unasked."""
_NUCLEUS_TEMPERATURE = 1.0
"""OpenAI's default: at a model's own 0 every nucleus holds one token, and all give one answer."""


def _is_greedy(model: ChatModel) -> bool:
    own = {"temperature": getattr(unbound(model), "temperature", None)}
    return bool(_first([*bound_settings(model), own], "temperature") == 0)


def seed_settings(model: ChatModel, settings: Mapping[str, Any], sample: object) -> dict[str, Any]:
    """Return a seed of the sample's own: with one seed for all, all samples are the same draw.

    The first sample keeps the seed that the model was given; without one, every draw is afresh.
    """
    if not isinstance(sample, int) or sample < 1:
        return {}
    target = unbound(model)
    tables = [settings, *bound_settings(model)]
    own = {name: getattr(target, name, None) for name in ("seed", "temperature")}
    seed = _first(tables, "seed")
    if seed is None and _takes_seed(target):
        seed = own["seed"]
    warm = _first([*tables, own], "temperature")
    return {"seed": seed + sample} if isinstance(seed, int) and warm else {}


def _first(tables: Sequence[Mapping[str, Any]], name: str) -> Any:
    return next((one[name] for one in tables if one.get(name) is not None), None)


def _takes_seed(target: object) -> bool:
    """Say whether a call may set the seed: ragweave's models, and OpenAI's clients."""
    named = any(kind.__name__ == "BaseChatOpenAI" for kind in type(target).__mro__)
    return named or getattr(target, "takes_seed", False) is True
