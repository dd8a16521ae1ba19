"""Spans, the pieces of passages that a context filter scores and keeps, and the filter protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NotRequired, Protocol, runtime_checkable

from langchain_core.documents import Document
from typing_extensions import TypedDict

from ragweave.errors import UsageError
from ragweave.state.passages import with_id
from ragweave.tools.text.sentences import split_sentences

Granularity = Literal["sentence", "passage"]
"""What a filter keeps or drops: sentences, or whole passages (the paper's PSG baseline)."""


class Span(TypedDict):
    """A piece of a passage, in plain JSON values: `text == passage[start:end]`."""

    passage_id: str
    """Id of the passage (its content id where it has none)."""
    start: int
    end: int
    text: str
    score: float
    """What the filter's measure gave; 0 before any."""
    passage_score: NotRequired[float]
    """What the filter gave its passage as a whole, where it ranks passages too."""


def spans_of(
    passages: Sequence[Document], granularity: Granularity = "sentence", language: str = "en"
) -> list[Span]:
    """Cut passages into candidate spans, in rank order, then reading order.

    A passage whose id came before gives none. Offsets are characters of the passage as given.

    Args:
        passages: Best first.
        granularity: Sentences, or each passage whole.
        language: ISO 639-1 code for the sentence splitter.

    Raises:
        UsageError: `granularity` is neither.

    Source: FILCO section 2.1 (sentences do best among the granularities).
    """
    if granularity not in ("sentence", "passage"):
        raise UsageError(f"granularity must be sentence or passage, not {granularity!r}")
    seen: set[str] = set()
    spans: list[Span] = []
    for passage in map(with_id, passages):
        name = str(passage.id)
        if name in seen:
            continue
        seen.add(name)
        spans.extend(
            {"passage_id": name, "start": start, "end": end, "text": text, "score": 0.0}
            for text, start, end in _pieces(passage.page_content, granularity, language)
        )
    return spans


def in_prompt_order(
    pieces: Sequence[Document], spans: Sequence[Span], passages: Sequence[Document]
) -> list[Document]:
    """Return pieces of passages as the passages stand in the prompt.

    They are numbered and bounded best first, whatever the order in which a prompt shows them.

    Args:
        pieces: A document for each span.
        spans: The spans, the best passage's first.
        passages: The passages, in prompt order.
    """
    places = {str(doc.id): at for at, doc in enumerate(map(with_id, passages))}
    order = sorted(range(len(pieces)), key=lambda at: places[spans[at]["passage_id"]])
    return [pieces[at] for at in order]


def with_score(span: Span, score: float) -> Span:
    """Return a copy of `span` with `score`."""
    return {**span, "score": score}


def _pieces(text: str, granularity: Granularity, language: str) -> Iterator[tuple[str, int, int]]:
    """Yield the pieces of one passage with their offsets; blank text has none."""
    if granularity == "sentence":
        yield from split_sentences(text, language)
    elif text.strip():
        yield text, 0, len(text)


@runtime_checkable
class ContextFilter(Protocol):
    """Chooses the spans of passages that help to answer; any trained filter fits too.

    Used with the gold answers it is FILCO's oracle, which makes training labels and, at test
    time, the SILVER upper bound. Used with the question alone it is an untrained stand-in for
    the paper's trained filter, not that filter.
    """

    def keep(
        self,
        question: str,
        passages: Sequence[Document],
        *,
        answers: Sequence[str] | None = None,
    ) -> list[Span]:
        """Return the kept spans, best first; none where nothing helps.

        Args:
            question: The question as asked.
            passages: Best first.
            answers: Gold answers (oracle), or a heuristic answer; None or empty: there are none.
        """
        ...
