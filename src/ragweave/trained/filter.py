"""A trained context filter: FILCO's M_ctx, which writes what to keep, or a small one that scores sentences.

A filter that writes should copy sentences, and sometimes does not: a word is changed, a sentence is
made up. What goes into a prompt is the passages' own text (`tools.filters.quoted`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from langchain_core.documents import Document

from ragweave.errors import UsageError
from ragweave.tools.filters import FilterKind, FilterSettings, quoted, span_of
from ragweave.tools.models.specs import part_spec
from ragweave.tools.models.tasks import task_passages
from ragweave.trained.card import READS, SCORES, WRITES, ModelCard, card_of
from ragweave.trained.engines import engine_of
from ragweave.trained.forms import filter_input

_LOGGER = logging.getLogger("ragweave")


def trained_filter(spec: str) -> FilterKind:
    """Return the filter in a folder, such as `filter/`; its weights load when they are first needed.

    A cross-encoder gives each sentence in its passage a probability. A span encoder distributes a
    probability of 1 over the sentences of all passages; a score is a share of the best one's, which
    always stays. One that writes (seq2seq, causal-lora) keeps the sentences that it quotes. A filter
    trained on whole passages (PSG) keeps or drops them whole, and may leave none. No code in the
    folder is run.

    Source: FILCO, section 2.3.

    Example:
        >>> graph = build_graph("filco", filter="filter/", top=2)  # doctest: +SKIP

    Raises:
        UsageError: The folder is not a finished trained component, or not a filter, or the text has
            settings.
    """
    named = part_spec(spec)
    if named is None or named.query:
        raise UsageError(f"{spec!r} must be the folder of a trained filter; top and threshold are options of the graph")
    card = card_of(named.folder)
    if card.role != "filter":
        raise UsageError(f"{named.folder}: was trained as a {card.role}, but a filter is needed here")
    writes, by_passage = card.kind in WRITES, card.data.get("unit") == "passage"
    least = card.effective_threshold * (1 - 1e-9)  # a share at the threshold is kept, whatever its last bits
    return FilterKind(
        name="trained",
        summary=f"Sentences that the filter in {named.folder} finds helpful.",
        scores=_Trained(str(named.folder), card).scores,
        threshold=0.0 if writes else least if card.kind in READS else card.effective_threshold,
        top=None if writes else 1,
        granularity="passage" if by_passage else "sentence",
        reads_answers=False,
        may_drop_all=by_passage,
    )


@dataclass
class _Trained:
    """A trained filter and, once loaded, its weights."""

    folder: str
    card: ModelCard
    _engine: Any = field(default=None, repr=False)

    def scores(
        self, question: str, segments: Sequence[Document], _answers: Sequence[str], _settings: FilterSettings
    ) -> list[float]:
        """Return a score for each segment. Safe under threads."""
        if self._engine is None:
            self._engine = engine_of(self.folder)
        if self.card.kind in SCORES:
            known = task_passages(passages_of(segments))
            pairs = self._engine.form.pairs(question, known, map(span_of, segments))
            chances: list[float] = self._engine.score(pairs)
            return chances
        return self._read(question, segments) if self.card.kind in READS else self._written(question, segments)

    def _read(self, question: str, segments: Sequence[Document]) -> list[float]:
        from ragweave.trained.span_reading import Sheet, Text
        from ragweave.trained.span_scorer import relative

        texts = [
            Text(str(group[0].metadata.get("title") or ""), [one.page_content for one in group])
            for group in _by_passage(segments)
        ]
        return relative(self._engine.logits([Sheet(question, texts)])[0])

    def _written(self, question: str, segments: Sequence[Document]) -> list[float]:
        """Read the passages as in training: all in one input, or each on its own (top-1 rows)."""
        groups = _by_passage(segments) if self.card.data.get("passages") == 1 else [list(segments)]
        written = self._engine.write([filter_input(question, passages_of(group)) for group in groups])
        if any(one.cut for one in written):
            _LOGGER.warning("%s: the passages did not fit the filter's input, and were cut", self.folder)
        return [
            score
            for group, one in zip(groups, written, strict=True)
            for score in quoted(one.text, [segment.page_content for segment in group])
        ]


def passages_of(segments: Sequence[Document]) -> list[Document]:
    """Return the passages that consecutive segments were cut from, with blanks for what stood between them."""
    passages = []
    for group in _by_passage(segments):
        text = ""
        for one in group:
            text = text.ljust(one.metadata["start"]) + one.page_content
        passages.append(group[0].model_copy(update={"page_content": text}))
    return passages


def _by_passage(segments: Sequence[Document]) -> list[list[Document]]:
    return [list(group) for _, group in groupby(segments, key=lambda one: one.id)]
