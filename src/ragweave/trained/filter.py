"""A trained context filter: FILCO's M_ctx, or a small one that scores sentences.

A filter that generates text (FILCO's M_ctx) should copy sentences, and sometimes does not: a
tokenizer has no token for some character, a word is changed, a sentence is made up. `aligned` maps
its output back to spans of the passages. What goes into a prompt is always the passages' own text;
what cannot be found in them is dropped.
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
from ragweave.tools.filters.oracles import checked_top, lexical, top_spans
from ragweave.tools.filters.spans import Granularity, Span, spans_of, with_score
from ragweave.tools.models.specs import part_spec, read_settings
from ragweave.tools.models.tasks import task_passages
from ragweave.tools.text.letters import WORD
from ragweave.tools.text.sentences import split_sentences
from ragweave.trained.card import READS, SCORES, WRITES, ModelCard, Scoring, card_of
from ragweave.trained.engines import engine_of
from ragweave.trained.forms import filter_input

if TYPE_CHECKING:
    from ragweave.trained.pairs import PairScorer
    from ragweave.trained.span_scorer import SpanScorer
    from ragweave.trained.writers import TextWriter


LEAST = 0.5
"""Unigram F1 that a passage's sentence needs to count as the one that was generated."""

_TOKEN = re.compile(rf"{WORD}|[^\w\s]")


class Kept(NamedTuple):
    """What a trained filter keeps."""

    spans: list[Span]
    """Best first, or in the order written."""
    cut: bool
    """Whether the end of the passages was not read, because it did not fit the filter's input."""


class _Text(NamedTuple):
    """A passage in lower case, its tokens separated by single spaces, with their positions."""

    passage: Document
    folded: str
    positions: list[tuple[int, int, int]]
    """For each token: start in `folded`, start and end in the passage."""


def aligned(written: str, passages: Sequence[Document]) -> list[Span]:
    """Return the spans of the passages that a text quotes, in the order of the text.

    Each sentence is searched for verbatim, ignoring white space and case (score 1); failing that,
    the most similar sentence of any passage takes its place if its unigram F1 (its score) is at
    least `LEAST`. No span is returned twice.

    Args:
        written: The filter's output; may be empty.
        passages: Best first; of two equal matches the first counts.
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
    """Yield the spans where the passages contain all tokens of `piece` in a row."""
    sought = " ".join(_TOKEN.findall(piece.lower()))
    if not sought:
        return
    for text in texts:
        index = f" {text.folded} ".find(f" {sought} ")
        if index < 0:
            continue
        inside = [one for one in text.positions if index <= one[0] < index + len(sought)]
        start, end = inside[0][1], inside[-1][2]
        yield {
            "passage_id": str(text.passage.id),
            "start": start,
            "end": end,
            "text": text.passage.page_content[start:end],
            "score": 1.0,
        }


def _similar(piece: str, sentences: Sequence[Span]) -> Span | None:
    """Return the sentence most similar to `piece`, or None where none is similar enough."""
    rated = [with_score(one, lexical(one["text"], piece)) for one in sentences]
    best = max(rated, key=lambda one: one["score"], default=None)
    return best if best is not None and best["score"] >= LEAST else None


def _folded(passage: Document) -> _Text:
    tokens: list[str] = []
    positions: list[tuple[int, int, int]] = []
    cursor = 0
    for match in _TOKEN.finditer(passage.page_content):
        token = match.group().lower()
        positions.append((cursor, match.start(), match.end()))
        tokens.append(token)
        cursor += len(token) + 1
    return _Text(passage, " ".join(tokens), positions)


class TrainedFilter:
    """Keeps the sentences that a trained part finds helpful; it never looks at answers.

    A cross-encoder gives each sentence in its passage a probability; the `top` best above the
    threshold are kept. A span encoder distributes a probability of 1 over the sentences of all
    passages; of those whose share is at least the threshold times the best one's, the `top` best
    are kept, so the best always is. A part that generates text (seq2seq, causal-lora) writes what
    to keep, and the sentences of the passages that it quotes are kept. All but the span encoder
    may keep nothing. A part trained on passages that were kept or dropped whole (PSG) keeps or drops
    them whole, and may leave none. No code in the folder is run. Safe under threads.

    Source: FILCO, section 2.3.

    Example:
        >>> graph = build_graph("filco", filter=TrainedFilter("filter/", top=2))  # doctest: +SKIP
    """

    def __init__(self, folder: str, *, top: int | None = 1, threshold: float | None = None) -> None:
        """Read the part's card; weights are loaded by `load`, or when they are first needed.

        Args:
            folder: The part's folder.
            top: Most sentences to keep over all passages (FILCO: 1); None: all that reach the
                threshold. A part that generates text decides by itself.
            threshold: Probability that a sentence must exceed, or for a span encoder the fraction
                of the best one's; None: the card's.

        Raises:
            UsageError: The folder is not a finished part that this version can read, the part is
                not a filter, or a value is out of range or does not apply to its kind.
        """
        self.folder, self.card = folder, card_of(folder)
        if self.card.role != "filter":
            raise UsageError(
                f"{folder}: was trained as a {self.card.role}, but a filter is needed here"
            )
        self.top, self.threshold = checked_top(top), _checked(folder, self.card, threshold)
        self.unit: Granularity = (
            "passage" if self.card.data.get("unit") == "passage" else "sentence"
        )
        """What it keeps or drops, as it was trained."""
        self.follows: frozenset[str] = frozenset()
        """Which of `top` and `threshold` come from a run's options."""
        self._engine: Scoring | SpanScorer | TextWriter | None = None

    def load(self) -> None:
        """Load the weights now rather than at the first call.

        Raises:
            UsageError: The folder is unsafe: it contains code or a pickle, or refers to code.
            MissingExtraError: What the kind needs is not installed.
            ModelError: The weights can't be read.
        """
        if self._engine is None:
            self._engine = engine_of(self.folder)

    def with_settings(self, *, top: int | None, threshold: float | None) -> Self:
        """Return this filter with a run's options, as far as it follows them.

        Raises:
            UsageError: The threshold is out of range or does not apply to this kind.
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
            answers: Ignored.
        """
        return self.kept(question, passages).spans

    def kept(self, question: str, passages: Sequence[Document]) -> Kept:
        """Return the kept spans as `keep` does, and whether all of the passages was read.

        A part that scores sentences reads each in as much of its passage as fits, and cuts none.

        Args:
            question: The question as asked.
            passages: Best first.
        """
        if not passages:
            return Kept([], cut=False)
        self.load()
        engine: Any = self._engine
        if self.card.kind in SCORES:
            return Kept(self._scored(engine, question, passages), cut=False)
        if self.card.kind in READS:
            return Kept(self._read(engine, question, passages), cut=False)
        return self._written(engine, question, passages)

    def _scored(
        self, scorer: PairScorer, question: str, passages: Sequence[Document]
    ) -> list[Span]:
        spans = spans_of(passages, self.unit)
        known = task_passages([with_id(one) for one in passages])
        chances = scorer.score(scorer.form.pairs(question, known, spans))
        return top_spans(map(with_score, spans, chances), self._least(), self.top)

    def _read(self, scorer: SpanScorer, question: str, passages: Sequence[Document]) -> list[Span]:
        from ragweave.trained.span_reading import Sheet, Text
        from ragweave.trained.span_scorer import chosen

        spans = spans_of(passages, self.unit)
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
        return self.card.effective_threshold if self.threshold is None else self.threshold

    def _written(self, writer: TextWriter, question: str, passages: Sequence[Document]) -> Kept:
        """Read the passages as in training: all in one input, or each on its own (top-1 rows)."""
        alone = self.card.data.get("passages") == 1
        groups = [[one] for one in passages] if alone else [list(passages)]
        written = writer.write([filter_input(question, group) for group in groups])
        found = [
            span
            for group, one in zip(groups, written, strict=True)
            for span in aligned(one.text, group)
        ]
        spans = found if self.unit == "sentence" else _whole(found, passages)
        return Kept(spans, cut=any(one.cut for one in written))


def _whole(spans: Sequence[Span], passages: Sequence[Document]) -> list[Span]:
    """Return the passages that were quoted, whole, in the order in which they were quoted."""
    whole = {one["passage_id"]: one for one in spans_of(passages, "passage")}
    quoted = dict.fromkeys(span["passage_id"] for span in spans)
    return [with_score(whole[name], 1.0) for name in quoted]


def trained_filter(spec: str) -> TrainedFilter:
    """Return the filter of a spec such as `filter/` or `part:filter/?top=2&threshold=0.3`.

    What the spec does not set, a run's options do.

    Raises:
        UsageError: As `TrainedFilter`, or a setting is unknown.
    """
    named = part_spec(spec)
    if named is None:
        raise UsageError(f"{spec!r} is not the folder of a trained filter")
    settings = read_settings(named.query)
    unknown = settings.keys() - {"top", "threshold"}
    if unknown:
        raise UsageError(f"{spec}: a trained filter has no setting {sorted(unknown)[0]!r}")
    made = TrainedFilter(str(named.folder), **settings)
    made.follows = frozenset({"top", "threshold"} - settings.keys())
    return made


def _checked(folder: str, card: ModelCard, threshold: float | None) -> float | None:
    """Return a threshold that is valid for the part.

    Raises:
        UsageError: It is not between 0 and 1, or the part generates text and has none.
    """
    if threshold is None:
        return None
    if card.kind in WRITES:
        raise UsageError(f"{folder}: is a {card.kind}, which generates text and has no threshold")
    if isinstance(threshold, bool) or not isinstance(threshold, int | float):
        raise UsageError(f"{folder}: threshold must be a number, not {threshold!r}")
    if not 0 <= threshold <= 1:
        raise UsageError(f"{folder}: threshold must be between 0 and 1, not {threshold}")
    return threshold
