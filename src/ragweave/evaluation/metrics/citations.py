"""Citations: recall and precision as ALCE defines them, and the share of an answer that quotes support.

Source: Gao et al. 2023 (Enabling Large Language Models to Generate Text with Citations), section 4.3. A
statement is a part of the answer; what it cites are the passages that its quotes stand in. ALCE's judge of
entailment is TRUE, an 11-billion T5; here it is the judge model, or a function of one's own:

    evaluate(settings, folder, own=citation_metrics(entails))

They apply to methods that cite: `concat[citations=true]`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from statistics import fmean
from typing import Any

from langchain_core.documents import Document

from ragweave.datasets import Question
from ragweave.evaluation.metrics.judged import supported
from ragweave.evaluation.metrics.metric import Metric, Score, State, given
from ragweave.tools.models import ChatModel
from ragweave.tools.text.untrusted import title_of

Entails = Callable[[str, str], Awaitable[bool | None]]
"""Says whether a premise (passages) entails a statement; None if it cannot say."""
Statement = tuple[str, Sequence[str]]
"""A statement and the texts of the passages that it cites, in order."""


async def citation_recall(statements: Sequence[Statement], entails: Entails) -> Score:
    """Return the share of statements that all the passages they cite, put together, entail."""
    return fmean([await _supported(said, cited, entails) for said, cited in statements])


async def citation_precision(statements: Sequence[Statement], entails: Entails) -> Score:
    """Return the share of citations that are relevant; 0 if there is none.

    A citation is irrelevant if its statement is not supported by all that it cites, or if the passage alone
    does not support it and the others still do without it.
    """
    relevant = total = 0
    for said, cited in statements:
        total += len(cited)
        if not await _supported(said, cited, entails):
            continue
        for at, text in enumerate(cited):
            rest = [*cited[:at], *cited[at + 1 :]]
            relevant += bool(await entails(text, said)) or not await _supported(said, rest, entails)
    return relevant / total if total else 0.0


async def _supported(said: str, cited: Sequence[str], entails: Entails) -> bool:
    return bool(cited) and bool(await entails("\n".join(cited), said))


def statements_of(state: State) -> list[Statement]:
    """Return an answer's statements with the passages that each cites, as ALCE shows them: title and text."""
    texts = {str(doc.id): _premise(doc) for doc in state["passages"]}
    return [
        (one["text"], [texts[name] for name in dict.fromkeys(quote["passage"] for quote in one["quotes"])])
        for one in (state.get("citations") or []) * bool(given(state))
    ]


def _premise(doc: Document) -> str:
    return f"Title: {title}\n{doc.page_content}" if (title := title_of(doc)) else doc.page_content


def _by_judge(judge: ChatModel) -> Entails:
    async def entails(premise: str, said: str) -> bool | None:
        found = await supported(judge, [said], premise)
        return found[0] if found else None

    return entails


def citation_metrics(entails: Entails | None = None) -> tuple[Metric, Metric]:
    """Return citation recall and precision, by a function of entailment; None: by the judge model."""

    def of(rule: Callable[[Sequence[Statement], Entails], Awaitable[Score]]) -> Any:
        async def judge(_question: Question, state: State, model: Any) -> Score:
            statements = statements_of(state)
            return await rule(statements, entails or _by_judge(model)) if statements else None

        return judge

    how, alce = "by a judge" if entails is None else "by a function", "Gao et al. 2023, ALCE"
    recall = f"Share of the answer's statements that the cited passages entail, {how}."
    precision = f"Share of the citations that their statements need, {how}."
    return (
        Metric("citation_recall", "Citation recall", recall, judge=of(citation_recall), source=alce),
        Metric("citation_precision", "Citation precision", precision, judge=of(citation_precision), source=alce),
    )


def _attribution(_question: Question, state: State) -> Score:
    citations = (state.get("citations") or []) if given(state) else []
    return fmean(bool(one["quotes"]) for one in citations) if citations else None


METRICS = (
    Metric("attribution", "Attribution", "Share of the answer's parts that a quote supports.", _attribution),
    *citation_metrics(),
)
