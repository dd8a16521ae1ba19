"""Objects by import path: `module:Name`, with settings as `module:Name?setting=value`."""

import inspect
import re
import sys
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from ragweave.errors import UsageError
from ragweave.tools.models.specs import read_settings

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
    found, settings = object_at(place), read_settings(query)
    if not (isinstance(found, type) or inspect.isroutine(found)):
        return found
    try:
        return found(*arguments, **settings)
    except (TypeError, ValueError, ImportError) as error:
        said = " ".join(str(error).split())
        raise UsageError(f"{place}: cannot be made ({said}); give settings as ?name=value") from error
