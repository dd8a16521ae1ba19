"""Loading a trained part by its folder and what it is wanted for."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, overload

from ragweave.tools.parts.card import PartRole, read_card
from ragweave.tools.parts.chat import PartChat
from ragweave.tools.parts.filter import TrainedFilter
from ragweave.tools.providers import existing


@overload
def load_part(folder: str | Path, role: Literal["filter"]) -> TrainedFilter: ...
@overload
def load_part(folder: str | Path, role: Literal["judge", "rewriter", "generator"]) -> PartChat: ...
@overload
def load_part(folder: str | Path, role: PartRole | None = None) -> PartChat | TrainedFilter: ...


def load_part(folder: str | Path, role: PartRole | None = None) -> PartChat | TrainedFilter:
    """Load a trained part, ready for a graph.

    Args:
        folder: The part's folder.
        role: What it is wanted for; None: whatever it was trained for.

    Returns:
        A chat model for a judge, rewriter or generator; a context filter for a filter.

    Raises:
        UsageError: There is no such folder, its training did not finish, it is of another format
            version or unsafe, or the part was trained for another role.
        MissingExtraError: What the part's kind needs is not installed.
        ModelError: The weights can't be read.
    """
    path = existing(Path(folder).expanduser())
    made = TrainedFilter if read_card(path, role).role == "filter" else PartChat
    part = made(str(path))
    part.load()
    return part
