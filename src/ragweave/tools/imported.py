"""Objects by import path: `module:Name`, with settings as `module:Name?setting=value`."""

import inspect
import json
import re
import sys
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from urllib.parse import parse_qsl

from ragweave.errors import UsageError, one_line_of

_PATH = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*:[A-Za-z_][\w.]*(?:\?.*)?")


def is_path(text: str) -> bool:
    """Return whether a text has the form of an import path, such as `package.module:Name`."""
    return _PATH.fullmatch(text) is not None


def object_at(path: str) -> Any:
    """Return the object at `module:Name`. The current folder is searched last.

    Raises:
        UsageError: There is no such module or name.
    """
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)  # only now that a module is named: the folder may hold untrusted documents
    try:
        return resolve_name(path)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{path}: cannot be imported ({error})") from error


def imported(path: str, *arguments: Any) -> Any:
    """Return the object at an import path; a class or function there is called with the arguments.

    Settings in the path (JSON values, or text) go to the call by name.

    Raises:
        UsageError: There is no such module or name, or it does not take these arguments.

    Examples:
        >>> imported("datetime:timedelta?hours=2")
        datetime.timedelta(seconds=7200)
    """
    place, _, query = path.partition("?")
    value, settings = object_at(place), read_settings(query)
    if not (isinstance(value, type) or inspect.isroutine(value)):
        return value
    try:
        return value(*arguments, **settings)
    except (TypeError, ValueError, ImportError) as error:
        raise UsageError(f"{place}: cannot be made ({one_line_of(error)}); give settings as ?name=value") from error


def read_settings(query: str) -> dict[str, Any]:
    """Read `a=1&b=true&c=text` into values: JSON where it is a number, true, false, null, a list or an object.

    A key (`api_key`) stays the text it is. `stop` is a list, also where it is named several times. A dot makes an entry
    of an object (`chat_template_kwargs.enable_thinking=false`).

    Raises:
        UsageError: A setting has a value and entries.
    """
    settings: dict[str, Any] = {}
    for name, text in parse_qsl(query.replace("+", "%2B"), keep_blank_values=True):  # keys in base64 hold pluses
        head, _, entry = name.partition(".")
        value = text if name.endswith("key") else _value(text)
        if name == "stop":
            settings[name] = [*settings.get(name, []), *(value if isinstance(value, list) else [text])]
        elif entry:
            if not isinstance(settings.setdefault(head, {}), dict):
                raise UsageError(f"{head} is {settings[head]!r} and cannot have an entry, {entry}")
            settings[head][entry] = value
        else:
            settings[name] = value
    return settings


def _value(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(value, str) else value
