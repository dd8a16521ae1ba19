"""The span encoder's network, and padding its inputs to batches. Importing it imports torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ragweave.trained.span_reading import ASKED, FEATURES, NOBODY, Read


class Batch(NamedTuple):
    """Some sheets, padded; their sentences run in the sheets' order."""

    ids: Tensor
    """(windows, tokens)."""
    types: Tensor
    """0 for the question, 1 for title and sentences, (windows, tokens)."""
    mask: Tensor
    """1 for tokens, 0 for padding, (windows, tokens)."""
    owners: Tensor
    """Number of each token's sentence in its sheet, (windows, tokens)."""
    row: Tensor
    """The window that each sentence is scored in, (sentences,)."""
    members: Tensor
    """Which tokens of that window are the sentence's, (sentences, tokens)."""
    features: Tensor
    """(sentences, features)."""

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device."""
        return Batch(*(one.to(device) for one in self))


def batch_of(reads: Sequence[Read], filler: int) -> Batch:
    """Pad sheets to a batch; `filler` is the tokenizer's padding."""
    windows = [window for read in reads for window in read.windows]
    width = max(len(window.ids) for window in windows)
    owners = padded([window.owners for window in windows], width, NOBODY)
    window_of: list[int] = []
    number: list[int] = []
    for index, window in enumerate(windows):
        own = sorted({one for one in window.owners if one >= 0})
        window_of += [index] * len(own)
        number += own
    row = torch.tensor(window_of)
    types = [[0] * one.second + [1] * (len(one.ids) - one.second) for one in windows]
    return Batch(
        ids=padded([window.ids for window in windows], width, filler),
        types=padded(types, width, 0),
        mask=padded([[1] * len(window.ids) for window in windows], width, 0),
        owners=owners,
        row=row,
        members=owners[row] == torch.tensor(number)[:, None],
        features=torch.tensor([one for read in reads for one in read.features]),
    )


def padded(values: Sequence[Sequence[int]], width: int, filler: int) -> Tensor:
    """Return rows of numbers as a tensor, (rows, width)."""
    return torch.tensor([[*one, *[filler] * (width - len(one))] for one in values])


def groups_of(reads: Sequence[Read], size: int) -> Iterator[list[int]]:
    """Yield the indices of sheets of similar length, at least one and about `size` windows each."""
    group: list[int] = []
    windows = 0
    for index in sorted(range(len(reads)), key=lambda i: -reads[i].length):
        if group and windows + len(reads[index].windows) > size:
            yield group
            group, windows = [], 0
        group.append(index)
        windows += len(reads[index].windows)
    if group:
        yield group


_LIKENESS = 10.0
"""Initial weight of the cosine: a sentence encoder ranks well by it before any training."""
_OUTSIDE = -1e4
"""Score of what is masked out."""


class Scores(NamedTuple):
    """The network's output for a batch."""

    sentences: Tensor
    """Logits; their softmax over a question's sentences gives shares, (sentences,)."""
    tokens: Tensor
    """Logits of being an answer's token, (windows, tokens)."""


class SpanHead(nn.Module):
    """Scores sentences from the states of their tokens.

    A sentence's score is a two-layer net over its mean state, plus the log-sum-exp of its tokens'
    scores (as a question answering head sums over where an answer may stand), plus a learned
    weight times the cosine between its mean state and the question's, plus a linear map of its
    features, which starts at zero.
    """

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.hidden = nn.Linear(width, width)
        self.mean = nn.Linear(width, 1)
        self.token = nn.Linear(width, 1)
        self.likeness = nn.Parameter(torch.tensor(_LIKENESS))
        self.features = nn.Linear(FEATURES, 1, bias=False)
        nn.init.zeros_(self.features.weight)

    def forward(self, states: Tensor, batch: Batch) -> Scores:
        """Score the sentences of a batch; `states` are (windows, tokens, width)."""
        number, token = batch.members.nonzero(as_tuple=True)
        own = states[batch.row[number], token]
        total = states.new_zeros(len(batch.row), states.shape[-1]).index_add(0, number, own)
        pooled = total / batch.members.sum(-1, keepdim=True)
        asked = (batch.owners == ASKED)[..., None]
        question = (states * asked).sum(1) / asked.sum(1).clamp(min=1)
        near = nn.functional.cosine_similarity(pooled, question[batch.row])
        mean = self.mean(self.dropout(nn.functional.gelu(self.hidden(pooled)))).squeeze(-1)
        tokens = self.token(self.dropout(states)).squeeze(-1)
        peak = tokens[batch.row].masked_fill(~batch.members, _OUTSIDE).logsumexp(-1)
        known = self.features(batch.features).squeeze(-1)
        return Scores(mean + peak + self.likeness * near + known, tokens)


class SpanEncoder(nn.Module):
    """A transformers encoder under a `SpanHead`."""

    def __init__(self, encoder: Any, dropout: float = 0.0) -> None:
        """Take the encoder; its pooler, which nothing here reads, is dropped."""
        super().__init__()
        if getattr(encoder, "pooler", None) is not None:
            encoder.pooler = None
        self.encoder = encoder
        self.typed = getattr(encoder.config, "type_vocab_size", 0) > 1
        self.head = SpanHead(encoder.config.hidden_size, dropout)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.head.likeness.device

    def forward(self, batch: Batch) -> Scores:
        """Score a batch; the head computes in float32 whatever the encoder does."""
        batch = batch.to(self.device)
        types = {"token_type_ids": batch.types} if self.typed else {}
        states = self.encoder(input_ids=batch.ids, attention_mask=batch.mask, **types)
        with torch.autocast(self.device.type, enabled=False):
            found: Scores = self.head(states.last_hidden_state.float(), batch)
        return found
