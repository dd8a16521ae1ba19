"""Trained parts in a graph: which role takes which part, checked before anything is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from ragweave.errors import UsageError
from ragweave.nodes.context_filter import FilterName
from ragweave.nodes.necessity import NecessityOptions
from ragweave.nodes.options import Options
from ragweave.tools.filters import FILTERS, ContextFilter, RegisteredFilter
from ragweave.tools.models import ChatModel, Models, chat_model
from ragweave.tools.models.bindings import unbound
from ragweave.tools.parts import PartRole
from ragweave.tools.parts.chat import PartChat
from ragweave.tools.parts.filter import trained_filter
from ragweave.tools.parts.kinds import SCORES
from ragweave.tools.parts.spec import inspected
from ragweave.tools.providers import is_part_spec

_ROLES = {"proxy": "proxy", "judge": "judge", "rewriter": "rewrite", "filter_model": "filter"}
"""Arguments of `build_graph`, and the roles that they fill."""

_PARTS: Mapping[str, PartRole] = {
    "model": "generator",
    "judge": "judge",
    "rewriter": "rewriter",
    "filter": "filter",
}
"""Arguments that take a trained part, and what it must have been trained as."""

_WANTED = {"proxy": "a model that drafts answers", "filter_model": "a model that names passages"}


def role_models(given: Mapping[str, str | ChatModel | None]) -> Models:
    """Return the models of a graph by role; trained parts among them are loaded.

    Args:
        given: By the names of `build_graph`'s arguments: `model`, and `proxy`, `judge`,
            `rewriter`, `filter_model` where they are not to fall back.

    Raises:
        UsageError: A spec is not understood, or a part was trained for another role.
        MissingExtraError: A model's packages are not installed.
    """
    for name, one in given.items():
        if isinstance(one, str) and is_part_spec(one):
            part_for(name, one)
    made = {name: chat_model(one) for name, one in given.items() if one is not None}
    parts = [part for name, one in made.items() if (part := _checked_part(name, one)) is not None]
    for part in parts:
        part.load()
    roles = {_ROLES[name]: one for name, one in made.items() if name != "model"}
    return Models(answer=made["model"], **roles)  # type: ignore[arg-type]


def context_filter_of(given: object) -> ContextFilter | None:
    """Return the caller's own context filter; None where a name stands for one of ours.

    A trained filter's folder becomes a filter that follows the options `top` and `threshold`.

    Raises:
        UsageError: It is no filter and names none, or the part was trained for another role.
        MissingExtraError: The part's packages are not installed.
    """
    if given is None or isinstance(given, ContextFilter):
        return given
    if not isinstance(given, str):
        raise UsageError(f"filter must be a name or have a keep method, not {type(given).__name__}")
    if given in get_args(FilterName):
        return None
    if given in FILTERS:
        return RegisteredFilter(FILTERS[given])
    if not _is_trained(given):
        return None
    found = trained_filter(given)
    found.load()
    return found


def filter_option(given: str) -> str:
    """Return what the option `filter` says for a text: a name, or `own` for a part's folder.

    Raises:
        UsageError: It is a text that is neither a name nor a path.
    """
    if given in get_args(FilterName):
        return given
    if given in FILTERS or _is_trained(given):
        return "own"
    names = ", ".join(dict.fromkeys([*get_args(FilterName), *FILTERS.names()]))
    raise UsageError(
        f"filter must be one of {names}, or the folder of a trained filter, not {given!r}"
    )


def part_for(argument: str, spec: str) -> str:
    """Check a text that names a trained part against what it is wanted for; nothing is loaded.

    Args:
        argument: Argument of `build_graph`.
        spec: The text.

    Returns:
        What tells one training of the part from another.

    Raises:
        UsageError: There is no such part, it is unsafe, or it was trained for another role.
    """
    card, digest = inspected(spec)
    _check_role(argument, spec, card.role)
    return digest


def check_drafts(models: Models, options: Options) -> None:
    """Check that a method which needs drafts has a model that can write them.

    Raises:
        UsageError: A trained part would have to: it does what it was trained for and no more.
    """
    part = part_of(models.by_role("proxy"))
    if part is not None and isinstance(options, NecessityOptions) and options.drafts:
        raise UsageError(
            f"{part.folder}: is a {part.role} and drafts no answer: name the model that does (proxy)"
        )


def check_decides(models: Models, options: Options) -> None:
    """Check that a method which asks the judge's role for more than a verdict has a chat model there.

    Raises:
        UsageError: A trained judge would have to say whether retrieval is needed.
    """
    part = part_of(models.by_role("judge"))
    if part is not None and getattr(options, "decided_by", "answer") == "judge":
        raise UsageError(
            f"{part.folder}: judges drafts and has none here: leave decided_by=judge out"
        )


def check_scorer(models: Models, judge_scorer: object, options: Options) -> None:
    """Check that no scorer or margin is given for a judge that was trained to say its verdict.

    Raises:
        UsageError: There is one.
    """
    part = part_of(models.by_role("judge"))
    if part is None:
        return
    if judge_scorer is not None:
        raise UsageError(f"{part.folder}: judges by itself: leave judge_scorer out")
    if isinstance(options, NecessityOptions) and options.margin:
        raise UsageError(
            f"{part.folder}: judges by itself, without a margin: leave margin out"
            + (f", or set judge={part.folder}?threshold=…" if part.card.kind in SCORES else "")
        )


def part_of(model: ChatModel | None) -> PartChat | None:
    """Return the trained part behind a model and its bindings, or None."""
    target = unbound(model)
    return target if isinstance(target, PartChat) else None


def _is_trained(given: str) -> bool:
    return given not in get_args(FilterName) and is_part_spec(given)


def _checked_part(argument: str, model: ChatModel) -> PartChat | None:
    part = part_of(model)
    if part is not None:
        _check_role(argument, part.folder, part.role)
    return part


def _check_role(argument: str, where: str, role: PartRole) -> None:
    if role == _PARTS.get(argument):
        return
    wanted = _WANTED.get(argument) or f"a {_PARTS[argument]}"
    raise UsageError(f"{where}: was trained as a {role}, and {wanted} is wanted here")
