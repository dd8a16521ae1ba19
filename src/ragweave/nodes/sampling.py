"""How a call draws its words: temperature, nucleus and seed, by the options and the model."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from langchain_core.language_models import BaseChatModel

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


def draws_nothing(model: ChatModel, options: Options) -> bool:
    """Say whether one prompt has one answer in a run: a single sample, at temperature 0."""
    settings = call_sampling("answer", options.sampling, model, options)
    return options.samples == 1 and decodes_greedily(model, settings)


_DRAWS: Mapping[Role, Mapping[str, str]] = {
    "answer": {"temperature": "sample_temperature", "top_p": "top_p"},
    "proxy": {"temperature": "proxy_temperature", "top_p": "proxy_top_p"},
}
"""The options that ask for a draw; models that refuse a temperature are told none unasked."""
_NUCLEUS_TEMPERATURE = 1.0
"""OpenAI's default: at a model's own 0 every nucleus holds one token, and all give one answer."""


def _is_greedy(model: ChatModel) -> bool:
    return bool(_temperature(model, {}) == 0)


def seed_settings(model: ChatModel, settings: Mapping[str, Any], sample: object) -> dict[str, Any]:
    """Return a seed of the sample's own: with one seed for all, all samples are the same draw.

    The first sample keeps the seed that the model was given; without one, every draw is afresh.
    """
    if not isinstance(sample, int) or sample < 1:
        return {}
    target = unbound(model)
    name = "random_seed" if "random_seed" in _fields(target) else "seed"
    seed = _first(_tables(model, settings), name)
    if seed is None and _takes_seed(target):
        seed = getattr(target, name, None)
    return {name: seed + sample} if isinstance(seed, int) and _warmth(model, settings) else {}


def decodes_greedily(model: ChatModel, settings: Mapping[str, Any]) -> bool:
    """Say whether a call is known to draw nothing, so that every sample of it is the same."""
    return bool(_warmth(model, settings) == 0)


def _warmth(model: ChatModel, settings: Mapping[str, Any]) -> Any:
    """Return the temperature of a call; None where the model's server chooses it.

    A model that knows a card's sampling says how warm it is for free text.
    """
    target = unbound(model)
    if isinstance(target, _KnowsCard):
        given = ChainMap(dict(settings), *bound_settings(model))
        warm: Any = target.free_text_temperature(given)
    else:
        warm = _temperature(model, settings)
    return warm or (warm if takes_temperature(model) else _NUCLEUS_TEMPERATURE)


@runtime_checkable
class _KnowsCard(Protocol):
    def free_text_temperature(self, settings: Mapping[str, Any]) -> float: ...


def _temperature(model: ChatModel, settings: Mapping[str, Any]) -> Any:
    """Return the temperature that a call, a binding or the model itself sets; None: none does."""
    own = {"temperature": getattr(unbound(model), "temperature", None)}
    return _first([*_tables(model, settings), own], "temperature")


def _tables(model: ChatModel, settings: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the settings of a call and those bound, Ollama's table `options` behind each."""
    tables = [settings, *bound_settings(model)]
    return [one for table in tables for one in (table, table.get("options")) if one]


def _first(tables: Sequence[Mapping[str, Any]], name: str) -> Any:
    return next((one[name] for one in tables if one.get(name) is not None), None)


def _takes_seed(target: object) -> bool:
    """Say whether a call may set the seed: ragweave's models, OpenAI's, Ollama's, Mistral's."""
    if any(kind.__name__ == "BaseChatOpenAI" for kind in type(target).__mro__):
        return True
    fields = _fields(target)
    known = "random_seed" in fields or {"num_predict", "seed"} <= fields
    return known or getattr(target, "takes_seed", False) is True


def _fields(target: object) -> frozenset[str]:
    return (
        frozenset(type(target).model_fields) if isinstance(target, BaseChatModel) else frozenset()
    )
