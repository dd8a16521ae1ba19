"""Citation recall and precision as ALCE defines them, by any judge of entailment.

Source: Gao et al. 2023 (Enabling Large Language Models to Generate Text with Citations), section 4.3
and appendix A.3. A statement is a part of the answer, what it cites are the passages that its
quotes stand in. No judge comes with ragweave; ALCE's is TRUE, an 11-billion T5:

    from ragweave.evaluation.metrics import citation_metrics

    evaluate(…, systems=["concat[citations=true]"], metrics=citation_metrics(entails))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from langchain_core.documents import Document

from ragweave.datasets.question import Question
from ragweave.evaluation.metrics.metric import Metric, given_answer
from ragweave.tools.citations import cite

Entails = Callable[[str, str], bool]
"""Says whether a premise (passages) entails a hypothesis (a statement of the answer)."""

SOURCE = "Gao et al. 2023, ALCE"


def citation_recall(statements: Sequence[tuple[str, Sequence[str]]], entails: Entails) -> float:
    """Return the share of statements that all they cite, put together, entails.

    Args:
        statements: Each statement with the texts of the passages that it cites, in order.
        entails: The judge.
    """
    return fmean(_supported(said, cited, entails) for said, cited in statements)


def citation_precision(statements: Sequence[tuple[str, Sequence[str]]], entails: Entails) -> float:
    """Return the share of citations that are relevant; 0 where there is none.

    A citation is irrelevant where its statement isn't supported by all that it cites, or where the
    passage alone doesn't support it and the other ones still do without it.
    """
    relevant = total = 0
    for said, cited in statements:
        total += len(cited)
        if not _supported(said, cited, entails):
            continue
        for index, text in enumerate(cited):
            rest = [*cited[:index], *cited[index + 1 :]]
            needed = entails(text, said) or not _supported(said, rest, entails)
            relevant += needed
    return relevant / total if total else 0.0


def citation_metrics(entails: Entails) -> tuple[Metric, Metric]:
    """Return citation recall and precision as metrics of a run.

    They apply to answers of methods that ran with `citations=True`.
    """

    def recall(_question: Question, state: Mapping[str, Any]) -> float | None:
        found = statements_of(state)
        return None if found is None else citation_recall(found, entails)

    def precision(_question: Question, state: Mapping[str, Any]) -> float | None:
        found = statements_of(state)
        return None if found is None else citation_precision(found, entails)

    return (
        Metric(
            name="citation_recall",
            label="Citation recall",
            summary="Share of an answer's statements that the cited passages entail.",
            compute=recall,
            source=SOURCE,
        ),
        Metric(
            name="citation_precision",
            label="Citation precision",
            summary="Share of an answer's citations that its statements need.",
            compute=precision,
            source=SOURCE,
        ),
    )


def attribution(_question: Question, state: Mapping[str, Any]) -> float | None:
    """Return the share of the answer's parts that a quote supports, word for word.

    A part is a sentence of a long answer, else the answer as a whole. None where no answer was
    given or no passage was read. Where the method didn't cite, its answer is cited here.
    """
    if not given_answer(state) or not state["passages"]:
        return None
    parts = state.get("citations") or cite(
        state["question"], state["answer"], state["passages"], state["resolved_answer_type"]
    )
    return fmean(bool(one["quotes"]) for one in parts) if parts else None


ATTRIBUTION = Metric(
    name="attribution",
    label="Attribution",
    summary="Share of an answer's parts that a quote from the passages supports; asks no model.",
    compute=attribution,
    source="ours: `citations`",
    on_request=True,
)


def statements_of(state: Mapping[str, Any]) -> list[tuple[str, list[str]]] | None:
    """Return an answer's statements with the passages that each cites; None where nothing was cited.

    A passage reads as ALCE shows it to its judge: title and text.
    """
    citations = state.get("citations")
    if not citations or not given_answer(state):
        return None
    texts = {doc.id or "": _premise(doc) for doc in state["passages"]}
    return [
        (one["text"], [texts[name] for name in dict.fromkeys(q["passage"] for q in one["quotes"])])
        for one in citations
    ]


def _supported(said: str, cited: Sequence[str], entails: Entails) -> bool:
    return bool(cited) and entails("\n".join(cited), said)


def _premise(doc: Document) -> str:
    title = str(doc.metadata.get("title") or "")
    return f"Title: {title}\n{doc.page_content}" if title else doc.page_content
