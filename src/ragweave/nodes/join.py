"""A node where branches meet before the next ones part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig

from ragweave.nodes.options import OptionsT
from ragweave.nodes.step import Step, Work, pure


def join_step(name: str, options: OptionsT) -> Step[OptionsT]:
    """Return a node that changes nothing: its outgoing route runs once, behind all branches."""

    def body(_state: Mapping[str, Any], _opts: OptionsT, _config: RunnableConfig) -> Work:
        return pure({})

    return Step(name, body, options)
