"""The factories by name, as `langgraph.json` names them: other packages' methods among them."""

from __future__ import annotations

from ragweave.graphs import METHODS
from ragweave.studio.factories import factory

globals().update({name: factory(method) for name, method in METHODS.items()})
