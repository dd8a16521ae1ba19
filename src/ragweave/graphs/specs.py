"""The methods by name, and systems as text.

A system is `METHOD`, `METHOD[option=value,…]` or a file, `choice.yaml`; several are separated by commas. Several values of
one option are joined by `+` or, outside brackets, by commas: `queries=question,internal`. Besides the method's options,
`retriever=`, `rerank=` and `prefer=` say how this system searches. `proxy:METHOD` is answered by the proxy in the place of
the answering model.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from ragweave.errors import UsageError, fault_of
from ragweave.graphs.base import Method
from ragweave.names import MethodName
from ragweave.nodes.options import Options, make_options
from ragweave.nodes.prompts import Prompts
from ragweave.registry import Registry
from ragweave.roles import RoleName
from ragweave.tools.files import read_yaml
from ragweave.tools.filters import FILTERS, FilterName
from ragweave.tools.providers import trained_folder
from ragweave.tools.retrieval.base import PassageRetriever


def _ours() -> Iterable[Method]:
    for name in get_args(MethodName):
        module = import_module(f"ragweave.graphs.{name}")
        yield next(value for value in vars(module).values() if isinstance(value, Method) and value.name == name)


METHODS: Registry[Method] = Registry("ragweave.methods", Method, "method", _ours)
"""Every method by name, in the order of listings: ours, then those of other packages (entry points `ragweave.methods`).

A method is imported when it is first asked for, so that an import of ragweave takes no longer than it must.
"""

register_method = METHODS.register
"""Add a method for the time of this process: `register_method(my_method)`, in a notebook or script."""

_SPEC = re.compile(r"(proxy:)?([\w.]+)(?:\[(.*)\])?", re.DOTALL)


def split_systems(text: str) -> list[str]:
    """Split at the commas that are not within brackets."""
    parts = re.split(r",(?![^\[]*\])", text)
    return [part.strip() for part in parts if part.strip()]


Model = TypeVar("Model")


@dataclass(frozen=True)
class SystemSpec:
    """A method with its options, and what it names of its surroundings."""

    method: Method
    options: Mapping[str, Any] = field(default_factory=dict)
    by_proxy: bool = False
    """Whether the proxy answers."""
    retriever: str = ""
    """How it searches (`retriever_of`); "": as the others."""
    rerank: str = ""
    prefer: str = ""
    """Which versions of a passage come first (`newest`)."""
    kb: str = ""
    models: Mapping[str, str] = field(default_factory=dict)
    """Model specs by role."""
    prompts: Prompts = field(default_factory=dict)

    def played(self, models: Mapping[str, Model]) -> dict[str, Model]:
        """Return models by role, of which the proxy answers if the spec says so."""
        swapped = {"generator": models["proxy"]} if self.by_proxy and "proxy" in models else {}
        return {**models, **swapped}

    def search(self) -> PassageRetriever | None:
        """Return the retriever that it names; None if it names none, and no knowledge base."""
        if not self.kb and not self.retriever:
            return None
        from ragweave.tools.knowledge.servers import retriever_of

        more: Any = {"rerank": self.rerank or None, "prefer": self.prefer}
        return retriever_of(self.retriever or "auto", self.kb or None, **more)


def is_choice(spec: str) -> bool:
    """Return whether a spec is a file that `ragweave tune` writes."""
    return spec.endswith((".yaml", ".yml"))


def read_system(spec: str, shared: Mapping[str, str] | None = None) -> SystemSpec:
    """Read a system.

    Args:
        spec: `METHOD[option=value,…]`, or a file that `write_choice` wrote.
        shared: Options as text, for each method that has them. A variant's own come before them, a file's after.

    Raises:
        UsageError: There is no such method, option or file, or a value is out of its range.
    """
    spec = spec.strip()
    if is_choice(spec):
        return read_choice(Path(spec), shared)
    match = _SPEC.fullmatch(spec)
    if not match:
        raise UsageError(f"a system is METHOD or METHOD[option=value,…], not {spec!r}")
    method = METHODS.named(match[2])
    given = read_pairs(pair for pair in (match[3] or "").split(",") if pair.strip())
    search: Any = {name: given.pop(name) for name in ("retriever", "rerank", "prefer") if name in given}
    return SystemSpec(method, _options(method, shared, given), by_proxy=bool(match[1]), **search)


def _options(method: Method, shared: Mapping[str, str] | None, own: Mapping[str, Any]) -> dict[str, Any]:
    fields = method.options.model_fields
    values = {name: value for name, value in (shared or {}).items() if name in fields} | dict(own)
    text = values.get("filter", "")
    is_own = "filter" in fields and text not in get_args(FilterName) and (text in FILTERS or trained_folder(text))
    # A trained filter's folder, or a package's: `build_graph` opens it.
    opened = {"filter": values.pop("filter")} if is_own else {}
    return {**read_options(method.options, values), **opened}


def read_choice(path: Path, shared: Mapping[str, str] | None = None) -> SystemSpec:
    """Read a system from a file with `method`, and perhaps `options`, `prompts`, `retriever`, `rerank`, `prefer`, `kb`, `models`.

    Raises:
        UsageError: The file cannot be read, it names no method, or a value does not fit.
    """
    from ragweave.tools.knowledge.servers import is_address

    fields = read_yaml(path)
    try:
        choice = _Choice.model_validate(fields)
    except ValidationError as error:
        raise UsageError(f"{path}: not a choice that `ragweave tune` wrote: {fault_of(error)}") from error
    if hidden := next((role for role, spec in choice.models.items() if "***" in spec), None):
        raise UsageError(f"{path}: keys are not stored: remove that of {hidden}, and set it in the environment")
    method, kb = METHODS.named(choice.method), choice.kb
    common = {name: text for name, text in (shared or {}).items() if name in method.options.model_fields}
    own = {
        "method": method,
        "options": _options(method, None, {**choice.options, **common}),
        "kb": str(path.parent / kb) if kb and not is_address(kb) else kb,
    }
    return SystemSpec(**{**choice.model_dump(), **own})


class _Choice(BaseModel):
    """The fields of a choice's file, named as those of `SystemSpec`."""

    method: str
    options: dict[str, Any] = {}
    prompts: dict[str, str | list[tuple[str, str]]] = {}
    retriever: str = ""
    rerank: str = ""
    prefer: str = ""
    kb: str = ""
    models: dict[RoleName, str] = {}


def write_choice(path: Path, system: SystemSpec, about: Mapping[str, Any]) -> None:
    """Write a system to a file, with what is known about it.

    A folder of a knowledge base is named from the file's, so that both can be moved together.
    """
    options = {name: [*value] if isinstance(value, tuple) else value for name, value in system.options.items()}
    kb = os.path.relpath(system.kb, path.parent) if system.kb and Path(system.kb).is_dir() else system.kb
    fields = {name: getattr(system, name) for name in _Choice.model_fields}
    fields |= {"method": system.method.name, "options": options, "kb": kb}
    text = yaml.safe_dump({**fields, **about}, sort_keys=False, allow_unicode=True, width=120)
    path.write_text(f"# Written by `ragweave tune`. Use it as a method: --method {path.name}\n{text}", "utf-8")


def read_pairs(texts: Iterable[str]) -> dict[str, str]:
    """Read `name=value` texts.

    Raises:
        UsageError: One has no `=`.
    """
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"an option is name=value, not {text!r}")
        pairs[name.strip().replace("-", "_")] = value.strip()
    return pairs


def read_options(options: type[Options], texts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a method's options from texts or values, each with its own type; they are those that are named.

    Raises:
        UsageError: There is no such option, or a value is out of its range; the text names it.
    """
    given = {name: _value(options, name, text) for name, text in texts.items()}
    checked = make_options(options, given)
    return {name: getattr(checked, name) for name in given}


def _value(options: type[Options], name: str, text: Any) -> Any:
    if not isinstance(text, str):
        return text
    annotation = options.model_fields[name].annotation if name in options.model_fields else None
    kinds = (annotation, *get_args(annotation))
    if text == "none" and type(None) in kinds and not any("none" in get_args(kind) for kind in kinds):
        return None
    many = any((get_origin(kind) or kind) in (tuple, list, set, frozenset) for kind in kinds)
    return re.split(r"[+,]", text) if many else text
