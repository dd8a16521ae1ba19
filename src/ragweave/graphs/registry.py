"""The methods by name, in the order in which they are listed.

A method is imported when it is first asked for, so that an import of ragweave takes no longer than it must.
"""

from collections.abc import Iterable
from importlib import import_module
from typing import get_args

from ragweave.graphs.base import Method
from ragweave.names import MethodName
from ragweave.registry import Registry


def _ours() -> Iterable[Method]:
    for name in get_args(MethodName):
        module = import_module(f"ragweave.graphs.{name}")
        yield next(value for value in vars(module).values() if isinstance(value, Method) and value.name == name)


METHODS: Registry[Method] = Registry("ragweave.methods", Method, "method", _ours)
"""Every method by name: ours, then those of other packages (entry points `ragweave.methods`)."""

register_method = METHODS.register
"""Add a method for the time of this process: `register_method(my_method)`, in a notebook or script."""
