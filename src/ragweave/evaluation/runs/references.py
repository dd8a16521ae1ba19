"""What a run takes from outside its directory: named by absolute path, identified by digests.

A run may be resumed from any directory. A trained part that was trained again, another recording,
another file of training questions or of weights, and another server are other input: a run that
began with the old one cannot be resumed with it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ragweave.datasets.rows import file_hash
from ragweave.errors import UsageError
from ragweave.evaluation.runs.settings import OPENAI, RunSettings, System
from ragweave.graphs import METHODS
from ragweave.graphs.build import filter_option, part_for, takes_filter
from ragweave.graphs.method import Method
from ragweave.tools.filters import FILTERS
from ragweave.tools.models.gguf import split_files
from ragweave.tools.models.specs import PREFIX, is_part_spec
from ragweave.tools.retrieval.embedding import PACKAGED
from ragweave.tools.retrieval.reranking import BI_ENCODER
from ragweave.tools.text.secrets import spec_settings
from ragweave.trained.card import absolute_spec, inspect_part, is_part

_LOCAL = ("hf", "llamacpp", "recorded")
"""Providers whose models are files of this machine (those of `hf` may be named as on the hub)."""

_PATHS = frozenset({"router", "training", "embedding", "encoder"})
"""Our methods' options that name a file or folder; the last two, also a model that is packaged or on
the hub."""


def absolute_model(spec: str) -> str:
    """Return a model's spec that means the same in any working directory.

    Raises:
        UsageError: It names a trained part that is not there.
    """
    kind, colon, rest = spec.strip().partition(":")
    return f"{kind}{colon}{_absolute(rest)}" if kind in _LOCAL else absolute_spec(spec)


def absolute_reranker(spec: str) -> str:
    """Return a reranker's spec that means the same in any working directory."""
    name = spec.removeprefix(BI_ENCODER)
    return f"{BI_ENCODER * (name != spec)}{_absolute(name)}"


def absolute_systems(systems: Sequence[System]) -> tuple[System, ...]:
    """Return systems whose options mean the same in any working directory."""
    return tuple(
        replace(
            one,
            options={name: _option(one, name, value) for name, value in one.options.items()},
        )
        for one in systems
    )


def with_absolute_paths(settings: RunSettings) -> RunSettings:
    """Return settings as today's version writes them: earlier ones kept most paths as given."""
    return replace(
        settings,
        models={role: absolute_model(spec) for role, spec in settings.models.items()},
        systems=absolute_systems(settings.systems),
        rerank=absolute_reranker(settings.rerank),
        judge_model=absolute_model(settings.judge_model),
    )


def _method(one: System) -> Method | None:
    """Return a system's method; None where the package that brings it is missing."""
    try:
        return METHODS.named(one.method)
    except UsageError:
        return None


def _own_files(one: System) -> frozenset[str]:
    method = _method(one)
    return frozenset() if method is None else method.files


def _trained_filter(one: System) -> str:
    """Return the folder of the trained filter that a system's options name; "": none."""
    method, named = _method(one), one.options.get("filter")
    if not isinstance(named, str) or method is None or not takes_filter(method):
        return ""
    return named if _is_folder(named) else ""


def _option(one: System, name: str, value: Any) -> Any:
    if not isinstance(value, str | os.PathLike):
        return value
    text = os.fspath(value)
    if name == "filter" and _trained_filter(one):
        return absolute_spec(text)
    return _absolute(text) if name in _PATHS | _own_files(one) else text


def _absolute(text: str) -> str:
    """Return a path that is there as an absolute one; settings may follow `?`."""
    head, mark, query = text.partition("?")
    path = Path(head).expanduser()
    if not head or head == PACKAGED or not path.exists():
        return text
    return f"{path.parent.resolve() / path.name}{mark}{query}"  # a link to a file keeps its name


def digests(
    models: Mapping[str, str], systems: Sequence[System], others: Sequence[str] = ()
) -> dict[str, str]:
    """Return by spec or path the digest that identifies each part's training, and each file.

    Args:
        models: Model specs by role.
        systems: What is compared.
        others: Specs of the judge of answers and of the scorer.

    Raises:
        UsageError: A part is missing, unsafe, or trained for another role.
    """
    found = {spec: part_for(argument, spec) for argument, spec in _parts(models, systems)}
    for one in systems:
        router = one.options.get("router")
        if isinstance(router, str) and router and is_part(Path(router).expanduser()):
            found[router] = inspect_part(f"{PREFIX}{router}")[1]
    found |= {name: file_hash(path) for name, path in _files(models, systems)}
    weights = ((spec, _weights(spec)) for spec in [*models.values(), *others])
    return found | {spec: weights_digest(files) for spec, files in weights if files}


_END = 1 << 16
"""Bytes of each end of a file of weights that its digest reads."""

_OF_A_MODEL = (".safetensors", ".bin", ".json", ".jinja", ".model")
"""Endings of weights, settings, chat templates and tokenizers in a model's folder."""

_SERVERS = ("openai:", "server:")
_ADDRESS = frozenset({"base_url", "openai_api_base"})


def weights_digest(files: Iterable[Path]) -> str:
    """Return what tells files of weights from others: by name, size, and the bytes of both ends.

    Reading gigabytes at each start would take minutes, and the time of a file changes with a copy.
    """
    digest = hashlib.sha256()
    for path in files:
        size = path.stat().st_size
        digest.update(f"{path.name}\0{size}\0".encode())
        with path.open("rb") as stream:
            digest.update(stream.read(_END))
            stream.seek(max(0, size - _END))
            digest.update(stream.read(_END))
    return digest.hexdigest()


def _weights(spec: str) -> list[Path]:
    """Return the files of a local model's weights; none where they are not here."""
    kind, _, rest = spec.strip().partition(":")
    if kind not in ("hf", "llamacpp"):
        return []
    path = Path(rest.partition("?")[0]).expanduser()
    if path.is_dir():
        listed = (one for one in path.iterdir() if one.suffix in _OF_A_MODEL)
        return sorted(one for one in listed if one.is_file())
    return split_files(path) if path.is_file() else []


_SCORER = "scorer "
"""Precedes a scorer's spec among the addresses: a chat model of that spec may be elsewhere."""


def addresses(models: Iterable[str], scorer: str = "") -> dict[str, str]:
    """Return the server's address by spec, for OpenAI-compatible models whose spec has none.

    It is what the client takes from the environment, without user, password and settings.

    Args:
        models: Specs of chat models, which LangChain's client asks.
        scorer: Spec of the scorer, which OpenAI's own client asks.
    """
    return _addresses_of([*models, *([f"{_SCORER}{scorer}"] if scorer else [])])


def _addresses_of(keys: Iterable[str]) -> dict[str, str]:
    named = {key: key.removeprefix(_SCORER) for key in keys}
    return {key: _address(key != spec) for key, spec in named.items() if _asks_a_server(spec)}


def _address(scoring: bool) -> str:
    """Return the server that the environment names: LangChain's client reads two variables."""
    chat = "" if scoring else os.environ.get("OPENAI_API_BASE")
    parts = urlsplit(chat or os.environ.get("OPENAI_BASE_URL") or OPENAI)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))


_READ_BY = {True: "OPENAI_BASE_URL", False: "OPENAI_API_BASE, else OPENAI_BASE_URL"}
"""What a scorer's client reads the server from, and a chat model's."""


def _asks_a_server(spec: str) -> bool:
    head, _, query = spec.strip().partition("?")
    named = {name for name, _ in spec_settings(query)}
    return head.startswith(_SERVERS) and not named & _ADDRESS


def check_addresses(settings: RunSettings, now: Mapping[str, str] | None = None) -> None:
    """Check that a run's models are still on the servers that it began with.

    Earlier versions recorded no address: those are not compared.

    Args:
        settings: The run's settings.
        now: The addresses of today by spec; None: those of the environment.

    Raises:
        UsageError: One is on another server.
    """
    now = _addresses_of(settings.addresses) if now is None else now
    for spec, address in {**settings.addresses, **settings.moved}.items():
        if now.get(spec, address) != address:
            variable = _READ_BY[spec.startswith(_SCORER)]
            raise UsageError(
                f"{spec}: the run began with the server {address}, and the environment "
                f"({variable}) now names {now[spec]}: set it as it was; or, where that is the "
                "same model at a new address, go on with `ragweave eval --resume RUN "
                "--moved-server`; or start a new run in another directory"
            )


def moved_addresses(settings: RunSettings) -> dict[str, str]:
    """Return by spec the address that the environment names, where the run began with another."""
    now = _addresses_of(settings.addresses)
    return {spec: to for spec, to in now.items() if to != settings.addresses[spec]}


def check_parts(settings: RunSettings) -> None:
    """Check that a run's parts and files are still those that it began with.

    Earlier versions recorded no digest of some: those are taken as they are.

    Raises:
        UsageError: One is missing, was trained again or has changed.
    """
    others = [one for one in (settings.judge_model, settings.scorer) if one]
    now = digests(settings.models, settings.systems, others)
    for spec, digest in settings.parts.items():
        if spec not in now:
            raise UsageError(f"{spec}: is missing; the run began with it")
        if now[spec] != digest:
            part = spec.startswith(PREFIX) or Path(spec).is_dir()
            said = "was trained again after" if part else "has changed since"
            raise UsageError(f"{spec}: {said} the run began; start a new run in another directory")


def _parts(models: Mapping[str, str], systems: Sequence[System]) -> Iterator[tuple[str, str]]:
    for role, spec in models.items():
        if is_part_spec(spec):
            yield "model" if role == "answer" else role, spec
    for one in systems:
        if named := _trained_filter(one):
            yield "filter", named


def _files(models: Mapping[str, str], systems: Sequence[System]) -> Iterator[tuple[str, Path]]:
    """Yield recordings and the files that options name; who needs one that is missing says so."""
    named = {one: one.partition(":")[2] for one in models.values() if one.startswith("recorded:")}
    given = [one.options.get(name) for one in systems for name in {"training", *_own_files(one)}]
    named |= {one: one for one in given if isinstance(one, str)}
    for name, text in named.items():
        path = Path(text.partition("?")[0]).expanduser()
        if path.is_file():
            yield name, path


def _is_folder(named: str) -> bool:
    """Return whether the option `filter` names a trained part's folder."""
    return named not in FILTERS and filter_option(named) != named
