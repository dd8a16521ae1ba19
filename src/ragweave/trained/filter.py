"""A trained context filter: FILCO's M_ctx, or a small one that scores sentences.

From the text that a filter wrote back to the spans of the passages that it copied.

A filter that writes (FILCO's M_ctx) should copy sentences, and may not: a tokenizer has no token
for some character, a word is changed, a sentence is made up. What goes into a prompt is always the
passages' own text; what cannot be found in them is dropped.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from langchain_core.documents import Document

from ragweave.errors import UsageError
from ragweave.state.passages import with_id
from ragweave.tools.filters.oracles import best, checked_top, lexical
from ragweave.tools.filters.spans import Span, scored, spans_of
from ragweave.tools.models.specs import part_spec, read_settings
from ragweave.tools.models.tasks import task_passages
from ragweave.tools.text.sentences import split_sentences
from ragweave.trained.card import READS, SCORES, WRITES, ModelCard, Scoring, card_of
from ragweave.trained.engines import engine_of
from ragweave.trained.forms import filter_input

if TYPE_CHECKING:
    from ragweave.trained.pairs import PairScorer
    from ragweave.trained.span_scorer import SpanScorer
    from ragweave.trained.writers import TextWriter


LEAST = 0.5
"""Unigram F1 that a sentence of a passage needs to pass for what was written."""

_TOKEN = re.compile(r"\w+|[^\w\s]")


class _Text(NamedTuple):
    """A passage in small letters, its tokens parted by single spaces, and where each stands."""

    passage: Document
    folded: str
    places: list[tuple[int, int, int]]
    """For each token: start in `folded`, start and end in the passage."""


def aligned(written: str, passages: Sequence[Document]) -> list[Span]:
    """Return the spans of the passages that a text quotes, in the order in which it does.

    Each sentence is looked for as it stands, white space and case aside (score 1); failing that,
    the most similar sentence of any passage takes its place, by unigram F1 from `LEAST` up (its
    score). A span comes once.

    Args:
        written: What the filter wrote; may be empty.
        passages: Best first; where two fit equally well the first is taken.
    """
    if not written.strip():
        return []
    texts = [_folded(passage) for passage in map(with_id, passages)]
    sentences = spans_of(passages)
    found: dict[tuple[str, int, int], Span] = {}
    for piece, _, _ in split_sentences(written):
        span = next(_exact(piece, texts), None) or _similar(piece, sentences)
        if span is not None:
            found.setdefault((span["passage_id"], span["start"], span["end"]), span)
    return list(found.values())


def _exact(piece: str, texts: Sequence[_Text]) -> Iterator[Span]:
    """Yield the places where the passages hold all tokens of `piece` in a row."""
    wanted = " ".join(_TOKEN.findall(piece.lower()))
    if not wanted:
        return
    for text in texts:
        at = f" {text.folded} ".find(f" {wanted} ")
        if at < 0:
            continue
        inside = [one for one in text.places if at <= one[0] < at + len(wanted)]
        start, end = inside[0][1], inside[-1][2]
        yield {
            "passage_id": str(text.passage.id),
            "start": start,
            "end": end,
            "text": text.passage.page_content[start:end],
            "score": 1.0,
        }


def _similar(piece: str, sentences: Sequence[Span]) -> Span | None:
    """Return the sentence that shares most words with `piece`, or None where none shares enough."""
    rated = [scored(one, lexical(one["text"], piece)) for one in sentences]
    best = max(rated, key=lambda one: one["score"], default=None)
    return best if best is not None and best["score"] >= LEAST else None


def _folded(passage: Document) -> _Text:
    tokens: list[str] = []
    places: list[tuple[int, int, int]] = []
    cursor = 0
    for match in _TOKEN.finditer(passage.page_content):
        token = match.group().lower()
        places.append((cursor, match.start(), match.end()))
        tokens.append(token)
        cursor += len(token) + 1
    return _Text(passage, " ".join(tokens), places)


class TrainedFilter:
    """Keeps what a trained part says helps; it never looks at answers.

    A part that scores (cross-encoder) gives each sentence in its passage a probability; the `top`
    best above the threshold are kept. A part that reads (span-encoder) shares out 1 among the
    sentences of all passages; the `top` best are kept whose share is at least the threshold times
    the best one's, so the best always is. A part that writes (seq2seq, causal-lora) writes what to
    keep, and the passages' own sentences are kept that it quotes. Those that score or write may
    keep nothing. Nothing in the folder is run. Safe under threads.

    Source: FILCO, section 2.3.

    Example:
        >>> graph = build_graph("filco", filter=TrainedFilter("filter/", top=2))  # doctest: +SKIP
    """

    def __init__(self, folder: str, *, top: int | None = 1, threshold: float | None = None) -> None:
        """Read the part's card; weights are loaded by `load`, or when they are first needed.

        Args:
            folder: The part's folder.
            top: Most sentences that are kept over all passages (FILCO: 1); None: all that reach the
                threshold. A part that writes decides by itself.
            threshold: Probability that a sentence must exceed, or for a part that reads the share
                of the best one's; None: the card's.

        Raises:
            UsageError: The folder is no finished part that this version can read, the part is no
                filter, or a value is out of range or not for its kind.
        """
        self.folder, self.card = folder, card_of(folder)
        if self.card.role != "filter":
            raise UsageError(
                f"{folder}: was trained as a {self.card.role}, and a filter is wanted here"
            )
        self.top, self.threshold = checked_top(top), _checked(folder, self.card, threshold)
        self.follows: frozenset[str] = frozenset()
        """Which of `top` and `threshold` a run's options decide."""
        self._engine: Scoring | SpanScorer | TextWriter | None = None

    def load(self) -> None:
        """Load the weights now rather than at the first call.

        Raises:
            UsageError: The folder is unsafe: it holds code, a pickle, or asks for code.
            MissingExtraError: What the kind needs is not installed.
            ModelError: The weights can't be read.
        """
        if self._engine is None:
            self._engine = engine_of(self.folder)

    def followed(self, *, top: int | None, threshold: float | None) -> Self:
        """Return this filter under a run's options, as far as it follows them.

        Raises:
            UsageError: The threshold is out of range or not for this kind.
        """
        if not self.follows:
            return self
        made = copy.copy(self)
        if "top" in self.follows:
            made.top = checked_top(top)
        if "threshold" in self.follows:
            made.threshold = _checked(self.folder, self.card, threshold)
        return made

    def keep(
        self,
        question: str,
        passages: Sequence[Document],
        *,
        answers: Sequence[str] | None = None,  # noqa: ARG002 - a trained filter needs none
    ) -> list[Span]:
        """Return the kept spans, best first (or in the order written); none where nothing helps.

        Args:
            question: The question as asked.
            passages: Best first.
            answers: Not looked at.
        """
        if not passages:
            return []
        self.load()
        engine: Any = self._engine
        if self.card.kind in SCORES:
            return self._scored(engine, question, passages)
        if self.card.kind in READS:
            return self._read(engine, question, passages)
        return self._written(engine, question, passages)

    def _scored(
        self, scorer: PairScorer, question: str, passages: Sequence[Document]
    ) -> list[Span]:
        spans = spans_of(passages)
        known = task_passages([with_id(one) for one in passages])
        chances = scorer.score(scorer.form.pairs(question, known, spans))
        return best(map(scored, spans, chances), self._least(), self.top)

    def _read(self, scorer: SpanScorer, question: str, passages: Sequence[Document]) -> list[Span]:
        from ragweave.trained.span_reading import Sheet, Text
        from ragweave.trained.span_scorer import chosen

        spans = spans_of(passages)
        if not spans:
            return []
        known = task_passages([with_id(one) for one in passages])
        titles = {one["id"]: one["title"] for one in reversed(known)}
        texts = [
            Text(titles[name], [one["text"] for one in group])
            for name, group in groupby(spans, key=lambda one: one["passage_id"])
        ]
        return chosen(spans, scorer.logits([Sheet(question, texts)])[0], self._least(), self.top)

    def _least(self) -> float:
        return self.card.decides_at if self.threshold is None else self.threshold

    def _written(
        self, writer: TextWriter, question: str, passages: Sequence[Document]
    ) -> list[Span]:
        """Read the passages as in training: all in one input, or each by itself (top-1 rows)."""
        alone = self.card.data.get("passages") == 1
        groups = [[one] for one in passages] if alone else [list(passages)]
        written = writer.write([filter_input(question, group) for group in groups])
        return [
            span
            for group, one in zip(groups, written, strict=True)
            for span in aligned(one.text, group)
        ]


def trained_filter(spec: str) -> TrainedFilter:
    """Return the filter that a text names: `filter/`, `part:filter/?top=2&threshold=0.3`.

    What the text does not set, a run's options do.

    Raises:
        UsageError: As `TrainedFilter`, or a setting is unknown.
    """
    named = part_spec(spec)
    if named is None:
        raise UsageError(f"{spec!r} names no trained filter's folder")
    settings = read_settings(named.query)
    unknown = settings.keys() - {"top", "threshold"}
    if unknown:
        raise UsageError(f"{spec}: a trained filter has no setting {sorted(unknown)[0]!r}")
    made = TrainedFilter(str(named.folder), **settings)
    made.follows = frozenset({"top", "threshold"} - settings.keys())
    return made


def _checked(folder: str, card: ModelCard, threshold: float | None) -> float | None:
    """Return a threshold that fits the part.

    Raises:
        UsageError: It is not between 0 and 1, or the part writes and has none.
    """
    if threshold is None:
        return None
    if card.kind in WRITES:
        raise UsageError(f"{folder}: is a {card.kind}, which writes and has no threshold")
    if isinstance(threshold, bool) or not isinstance(threshold, int | float):
        raise UsageError(f"{folder}: threshold must be a number, not {threshold!r}")
    if not 0 <= threshold <= 1:
        raise UsageError(f"{folder}: threshold must be 0 to 1, not {threshold}")
    return threshold
