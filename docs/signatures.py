"""The typed signatures of `build_graph` and `build_chat`, and names as literals, from the registries.

`src/ragweave/names.py` lists the names of ours; `src/ragweave/graphs/face.pyi` has an overload for
each set of options in `arguments.py`, so that type checkers know a method's name and its options.
`docs/sync.py` writes all three.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ragweave.evaluation.metrics import METRICS
from ragweave.graphs import METHODS, Method
from ragweave.graphs.build import build_graph
from ragweave.graphs.chat import build_chat
from ragweave.nodes.options import Options
from ragweave.tools.knowledge.retrievers import MODES

NAMES = "src/ragweave/names.py"
ARGUMENTS = "src/ragweave/graphs/arguments.py"
FACE = "src/ragweave/graphs/face.pyi"

_NAMES_HEAD = '''\
"""The names of ragweave's own methods, retrievers and metrics, as types.

Written by `make sync` from the registries. Other packages' go by their declarations:
`build_graph(METHODS["draft_check"])`.
"""

from typing import Literal
'''

_ARGUMENTS_HEAD = '''\
"""The arguments of `build_graph` for each method, as typed dicts: what `face.pyi` unpacks.

Written by `make sync` from the methods' options. Of use for settings that are kept in a variable:
`settings: FilcoArguments = {"top": 2}`, then `build_graph("filco", **settings)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Literal

from langchain_core.embeddings import Embeddings
from langchain_core.prompts import ChatPromptTemplate
from langgraph.types import Checkpointer, RetryPolicy
from typing_extensions import TypedDict

from ragweave.nodes.retrieve import Retriever
from ragweave.state import RAGState
from ragweave.tools.filters import ContextFilter
from ragweave.tools.models import ChatModel
from ragweave.tools.scorers.specs import LogprobScorer


'''

_FACE_HEAD = """\
# Written by `make sync` from the methods' options.
from typing import Any, Literal, overload

from typing_extensions import Unpack

from ragweave.graphs.arguments import (
{imports}
)
from ragweave.graphs.chat import ChatGraph
from ragweave.graphs.frame import CompiledGraph
from ragweave.graphs.method import Method
from ragweave.tools.models import ChatModel
"""

_SHARED = "Arguments"
_WIDTH = 100
_CHAT_DEFAULT = "concat_pf"


def names_module() -> str:
    """Return the module of the names."""
    listed = {
        "MethodName": [one.name for one in METHODS.ours()],
        "RetrieverName": [*MODES],
        "MetricName": [one.name for one in METRICS.ours()],
    }
    return "\n".join([_NAMES_HEAD, *(_literal(*one) for one in listed.items())])


def _literal(name: str, values: Iterable[str]) -> str:
    return "\n".join([f"{name} = Literal[", *(f'    "{value}",' for value in values), "]", ""])


def arguments_module() -> str:
    """Return the module of the typed dicts, one for each set of arguments."""
    classes = [_arguments(_SHARED, "TypedDict, total=False", _shared(), "What every method takes.")]
    for own, methods in _groups().items():
        if own:
            listed = ", ".join(f"`{one.name}`" for one in methods)
            about = f"What {listed} takes." if len(methods) == 1 else f"What {listed} take."
            classes.append(
                _arguments(_kind(own, methods), f"{_SHARED}, total=False", dict(own), about)
            )
    return _ARGUMENTS_HEAD + "\n\n".join(classes)


def face_stub() -> str:
    """Return the stub of the two functions, an overload for each set of arguments."""
    groups = [(_kind(own, methods), methods) for own, methods in _groups().items()]
    graphs = [_overload("build_graph", methods, kind, "CompiledGraph") for kind, methods in groups]
    chats = [
        _overload("build_chat", methods, kind, "ChatGraph", _chat_only())
        for kind, methods in groups
    ]
    graphs.append(_any_method("build_graph", "CompiledGraph"))
    chats.append(_any_method("build_chat", "ChatGraph"))
    imports = "\n".join(f"    {kind}," for kind in sorted(kind for kind, _ in groups))
    return "\n".join([_FACE_HEAD.format(imports=imports), *graphs, *chats]) + "\n"


_Own = tuple[tuple[str, str], ...]


def _groups() -> dict[_Own, list[Method]]:
    """Return the methods by what they take beside the shared arguments."""
    groups: dict[_Own, list[Method]] = {}
    for method in METHODS.ours():
        groups.setdefault(tuple(_own_arguments(method.options).items()), []).append(method)
    return groups


def _kind(own: _Own, methods: list[Method]) -> str:
    return methods[0].options.__name__.replace("Options", _SHARED) if own else _SHARED


def _shared() -> dict[str, str]:
    """Return what every method takes: the arguments of `build_graph`, then every method's options."""
    given = inspect.signature(build_graph).parameters
    skipped = ("name", "filter", "options")
    arguments = {name: str(one.annotation) for name, one in given.items() if name not in skipped}
    return arguments | _options(Options)


def _own_arguments(options: type[Options]) -> dict[str, str]:
    """Return what a method's options add to `_shared`."""
    shared = _shared()
    own = {name: text for name, text in _options(options).items() if shared.get(name) != text}
    if "filter" in own:
        own["filter"] = str(inspect.signature(build_graph).parameters["filter"].annotation)
    return own


def _options(options: type[Options]) -> dict[str, str]:
    hints = get_type_hints(options)
    return {field.name: hint_text(hints[field.name]) for field in dataclasses.fields(options)}


def _chat_only() -> Mapping[str, str]:
    """Return the arguments that `build_chat` has and `build_graph` has not."""
    given = inspect.signature(build_chat).parameters
    known = {*inspect.signature(build_graph).parameters, "method", "citations"}
    return {name: str(one.annotation) for name, one in given.items() if name not in known}


def hint_text(hint: Any) -> str:
    """Return an option's type as callers may give it: a list for a tuple, a path for a text."""
    if get_origin(hint) in (Union, UnionType):
        return " | ".join(map(hint_text, get_args(hint)))
    if get_origin(hint) is Literal:
        return f"Literal[{', '.join(map(_quoted, get_args(hint)))}]"
    if get_origin(hint) is tuple:
        return f"Sequence[{hint_text(get_args(hint)[0])}]"
    if hint is str:
        return "str | PathLike[str]"
    return "None" if hint is NoneType else str(hint.__name__)


def _quoted(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _arguments(name: str, bases: str, fields: Mapping[str, str], about: str) -> str:
    lines = (_field(field, text) for field, text in fields.items())
    return "\n".join([f"class {name}({bases}):", f'    """{about}"""', "", *lines, ""])


def _field(name: str, text: str) -> str:
    """Return a field's line, its literal broken up where it would be too long."""
    line = f"    {name}: {text}"
    if len(line) <= _WIDTH or not text.startswith("Literal["):
        return line
    values = text.removeprefix("Literal[").removesuffix("]").split(", ")
    return "\n".join([f"    {name}: Literal[", *(f"        {one}," for one in values), "    ]"])


def _overload(
    function: str,
    methods: list[Method],
    kind: str,
    result: str,
    more: Mapping[str, str] = MappingProxyType({}),
) -> str:
    names = [one.name for one in methods]
    listed = f"Literal[{', '.join(map(_quoted, names))}]"
    default = " = ..." if function == "build_chat" and _CHAT_DEFAULT in names else ""
    return "\n".join(
        [
            "@overload",
            f"def {function}(",
            f"    name: {listed}{default},",
            *(["    *,"] if more else []),
            *(f"    {name}: {text} = ...," for name, text in more.items()),
            f"    **given: Unpack[{kind}],",
            f") -> {result}: ...",
        ]
    )


def _any_method(function: str, result: str) -> str:
    return f"@overload\ndef {function}(name: Method, **given: Any) -> {result}: ..."


def typed_files(root: Path) -> Mapping[Path, str]:
    """Return the generated modules, as they should be."""
    return {
        root / NAMES: names_module(),
        root / ARGUMENTS: arguments_module(),
        root / FACE: face_stub(),
    }
