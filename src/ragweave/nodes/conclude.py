"""How every graph ends: the answer and its status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langgraph.types import Overwrite

from ragweave.state import Stopped, Update
from ragweave.state.passages import as_input
from ragweave.tools.text.unknown import UNKNOWN, is_unknown


def conclude(state: Mapping[str, Any], answer: str, stopped: Stopped = "") -> Update:
    """Return the update that ends a run with `answer`.

    Passages edited by hand during the run lose their `given` mark, so that they do not count as
    handed in with the thread's next question.
    """
    unknown = is_unknown(answer)
    return {
        "answer": UNKNOWN if unknown else answer,
        "status": "unknown" if unknown else "answered",
        "stopped": stopped,
        "passages": Overwrite(as_input(state["passages"])),
    }
