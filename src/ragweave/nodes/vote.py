"""The majority vote over candidate answers, and how every graph ends with one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from langchain_core.documents import Document
from langgraph.types import Overwrite

from ragweave.nodes.options import Options, OptionsT
from ragweave.nodes.replies import bare_text
from ragweave.nodes.step import Context, Step, Work, pure
from ragweave.state import Candidate, RAGState, Update
from ragweave.state.passages import as_input, as_merged, told_apart
from ragweave.tools.citations import cite
from ragweave.tools.text.markup import is_sign
from ragweave.tools.text.normalize import normalize_answer
from ragweave.tools.text.unknown import UNKNOWN, is_unknown


def conclude(
    state: RAGState,
    answer: str,
    winners: Iterable[Candidate],
    options: Options,
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
        options: The options in force: they say whether the answer is cited.
        truncated: Whether a limit on rounds ended the method.
    """
    unknown = is_unknown(answer) and not is_sign(answer)
    passages = as_input(passages_read(state, winners))
    update: Update = {
        "answer": UNKNOWN if unknown else answer,
        "status": "unknown" if unknown else "answered",
        "truncated": truncated,
        "passages": Overwrite(passages),
    }
    if options.citations:
        kind = state["resolved_answer_type"]
        update["citations"] = cite(state["question"], update["answer"], passages, kind)
    return update


def passages_read(state: RAGState, candidates: Iterable[Candidate]) -> list[Document]:
    """Return the passages that candidates read, in the prompt order of the first that read them.

    A passage is taken as it stands in `passages` (where a filter may have cut it), else as a filter
    kept it, else as it was retrieved; one that was taken out of the state by hand is left out.
    """
    sets = [
        state["passages"],
        *state.get("kept", {}).values(),
        *told_apart(state.get("retrieved", {})).values(),
    ]
    known: dict[str, Document] = {}
    for doc in (doc for one in sets for doc in one):
        known.setdefault(doc.id or "", doc)
    read = dict.fromkeys(name for one in candidates for name in one["passages"])
    return [known[name] for name in read if name in known]


def majority_vote(candidates: Iterable[Candidate], passages: Sequence[Document] = ()) -> str:
    """Return the answer that most candidates give, or `Unknown` where none gives one.

    Answers are compared normalised; the winner is shown in the words of its best-ranked
    candidate. "Unknown" never wins while another answer stands. The paper leaves ties open: the
    answer whose best passage ranks first wins, of one rank that which was merged first, then the
    earlier sample.

    Args:
        candidates: The candidates, in any order.
        passages: The passages of all queries: several may have one rank.

    Source: Liu et al. 2024 (Modeling Uncertainty and Using Post-fusion as Fallback), eq. 2.
    """
    winners = elected(candidates, passages)
    return winners[0]["answer"] if winners else UNKNOWN


def elected(candidates: Iterable[Candidate], passages: Sequence[Document] = ()) -> list[Candidate]:
    """Return the candidates that give the answer of the majority, the best-ranked one first."""
    merged = {doc.id or "": at for at, doc in enumerate(as_merged(passages))}

    def place(one: Candidate) -> tuple[int, int, int, str]:
        at = min((merged.get(name, len(merged)) for name in one["passages"]), default=len(merged))
        return one["rank"], at, one["sample"], one["answer"]

    votes: dict[str, list[Candidate]] = {}
    for one in sorted(candidates, key=place):
        if one["answer"] != UNKNOWN:
            votes.setdefault(_compared(one), []).append(one)
    return min(votes.values(), key=lambda pool: (-len(pool), place(pool[0])), default=[])


def _compared(one: Candidate) -> str:
    return normalize_answer(one["answer"]) or one["answer"]


def pool_of(state: RAGState, *pools: str) -> list[Candidate]:
    """Return the candidates that the nodes named `pools` made, in order."""
    return [one for one in state["candidates"].values() if one["pool"] in pools]


def last_round(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates of the latest round among `candidates`, in order."""
    listed = list(candidates)
    latest = max((one["round"] for one in listed), default=0)
    return [one for one in listed if one["round"] == latest]


def vote_step(
    name: str,
    pool: str | tuple[str, ...],
    options: OptionsT,
    *,
    truncated: Callable[[RAGState, OptionsT], bool] = lambda _state, _options: False,
    falls_back: Callable[[RAGState, OptionsT], bool] = lambda _state, _options: False,
    reader: str = "",
) -> Step[RAGState, OptionsT]:
    """Return a node that votes over the latest round of a pool, or of several, joined.

    Args:
        name: The node's name.
        pool: The pool or pools.
        options: The build's options.
        truncated: Says of state and options whether a limit on rounds ended the method.
        falls_back: Says of state and options whether the method goes on where the answer is Unknown:
            the passages are left as they are then, and nothing is said of the run's end.
        reader: The one of the pools that reads answers off reasonings of the round before: where
            it says nothing at all, what those reasonings say counts, noted `short_answer_empty`.
    """
    pools = (pool,) if isinstance(pool, str) else pool

    def body(state: RAGState, context: Context[OptionsT]) -> Work:
        candidates = pool_of(state, *pools)
        read = [one for one in candidates if one["pool"] == reader]
        if read and not any(bare_text(one["reply"]) for one in read):
            candidates = [one for one in candidates if one["pool"] != reader]
            context.note("short_answer_empty", replies=len(read))
        last = last_round(candidates)
        winners = elected(last, state["passages"])
        answer = winners[0]["answer"] if winners else UNKNOWN
        update = conclude(
            state,
            answer,
            winners or last,
            context.options,
            truncated=truncated(state, context.options),
        )
        if update["status"] == "unknown" and falls_back(state, context.options):
            del update["passages"]
        return pure(update)

    return Step(name, body, options)
