"""How every graph ends: the answer, its status, and a state that the next turn can start from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langgraph.types import Overwrite

from ragweave.state import Update
from ragweave.state.passages import as_input
from ragweave.tools.text.unknown import UNKNOWN, is_unknown


def conclude(state: Mapping[str, Any], answer: str) -> Update:
    """Return the update that ends a run with `answer`.

    Passages edited by hand during the run lose their `given` mark, and the answer type of this
    input is cleared, so that neither leaks into the thread's next question.
    """
    unknown = is_unknown(answer)
    return {
        "answer": UNKNOWN if unknown else answer,
        "status": "unknown" if unknown else "answered",
        "passages": Overwrite(as_input(state["passages"])),
        "answer_type": None,
    }
