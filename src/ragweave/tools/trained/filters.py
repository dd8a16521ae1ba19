"""Trained context filters: FILCO's M_ctx, which writes what to keep, or a small one that scores sentences."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from langchain_core.documents import Document

from ragweave.errors import UsageError
from ragweave.tools.filters import FilterKind, quoted
from ragweave.tools.models.specs import trained_folder
from ragweave.tools.trained.card import WRITERS, Card, load, read_card
from ragweave.tools.trained.forms import Passage, by_passage, filter_input, sentence_pairs

_LOGGER = logging.getLogger("ragweave")


def trained_filter(spec: str) -> FilterKind:
    """Return the filter in a folder, such as `filter/`; its weights load when they are first needed.

    A cross-encoder gives each sentence a probability. A span encoder spreads a probability of 1 over the sentences of
    all passages; a score is its share of the best one's, which always stays. One that writes (seq2seq, causal-lora)
    keeps the sentences that it quotes: what goes into a prompt is the passages' own text. A filter trained on whole
    passages (PSG) keeps or drops them whole, and may leave none. It never reads right answers. No code in the folder
    is run. Safe under threads.

    Source: FILCO, section 2.3.

    Examples:
        >>> graph = build_graph("filco", filter="filter/", top=2)  # doctest: +SKIP

    Raises:
        UsageError: The folder is no trained filter, or the text has settings.
    """
    folder = trained_folder(spec)
    if folder is None or "?" in spec:
        raise UsageError(f"{spec!r} must be the folder of a trained filter; top and threshold are options of the graph")
    card = read_card(folder, "filter")
    return FilterKind(
        name="trained",
        summary=f"Sentences that the filter in {folder} finds helpful.",
        scores=lambda question, segments, _answers, _settings: _scores(folder, card, question, segments),
        threshold=(card.threshold or 0.0) * (1 - 1e-9),  # a share at the threshold stays, whatever its last bits
        top=None if card.kind in WRITERS else 1,
        granularity=card.unit,
        reads_answers=False,
    )


def _scores(folder: Path, card: Card, question: str, segments: Sequence[Document]) -> list[float]:
    if card.kind in WRITERS:
        return _by_quotes(folder, card, question, segments)
    passages = [
        Passage(str(group[0].metadata.get("title") or ""), [one.page_content for one in group])
        for group in by_passage(segments)
    ]
    scorer, is_span = load(folder), card.kind == "span-encoder"
    pairs = sentence_pairs(question, passages)
    scores: list[float] = scorer.shares(question, passages) if is_span else scorer.probabilities(pairs)
    return scores


def _by_quotes(folder: Path, card: Card, question: str, segments: Sequence[Document]) -> list[float]:
    """Score what the filter quotes; it reads the passages as in training, all in one input or each alone."""
    texts = [" ".join(one.page_content for one in group) for group in by_passage(segments)]
    groups = by_passage(segments) if card.alone else [list(segments)]
    inputs = [filter_input(question, [text]) for text in texts] if card.alone else [filter_input(question, texts)]
    written = load(folder).write(question, inputs)
    if any(one.cut for one in written):
        _LOGGER.warning("%s: the passages did not fit the filter's input, and were cut", folder)
    return [
        score
        for group, one in zip(groups, written, strict=True)
        for score in quoted(one.text, [segment.page_content for segment in group])
    ]
