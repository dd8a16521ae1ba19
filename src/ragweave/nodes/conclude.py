"""How every graph ends: the answer, its status, and the passages behind it."""

from __future__ import annotations

from collections.abc import Iterable

from langchain_core.documents import Document
from langgraph.types import Overwrite

from ragweave.state import Candidate, RAGState, Update
from ragweave.state.passages import as_input
from ragweave.tools.text.unknown import UNKNOWN, is_unknown


def conclude(
    state: RAGState,
    answer: str,
    winners: Iterable[Candidate],
    *,
    truncated: bool = False,
) -> Update:
    """Return the update that ends a run with `answer`.

    The passages of the output are those that the winners read, whatever stood in the state before.
    They lose the mark `given`, so that they do not count as handed in with the thread's next
    question.

    Args:
        state: The state.
        answer: The answer; anything that says "unknown" counts as none.
        winners: The candidates that gave the answer, the best one first; where there is no answer,
            the candidates that the method asked last.
        truncated: Whether a limit on rounds ended the method.
    """
    unknown = is_unknown(answer)
    return {
        "answer": UNKNOWN if unknown else answer,
        "status": "unknown" if unknown else "answered",
        "truncated": truncated,
        "passages": Overwrite(as_input(passages_read(state, winners))),
    }


def passages_read(state: RAGState, candidates: Iterable[Candidate]) -> list[Document]:
    """Return the passages that candidates read, in the prompt order of the first that read them.

    A passage is taken as it stands in `passages` (where a filter may have cut it), else as a filter
    kept it, else as it was retrieved; one that was taken out of the state by hand is left out.
    """
    sets = [
        state["passages"],
        *state.get("kept", {}).values(),
        *state.get("retrieved", {}).values(),
    ]
    known: dict[str, Document] = {}
    for doc in (doc for one in sets for doc in one):
        known.setdefault(doc.id or "", doc)
    read = dict.fromkeys(name for one in candidates for name in one["passages"])
    return [known[name] for name in read if name in known]
