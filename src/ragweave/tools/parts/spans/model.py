"""The span encoder's network. Imported where torch is wanted."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ragweave.tools.parts.spans.batch import Batch
from ragweave.tools.parts.spans.reading import ASKED, FEATURES

_LIKENESS = 10.0
"""Weight of the cosine at the beginning: an encoder of sentences ranks by it untrained."""
_OUTSIDE = -1e4
"""Score of what is masked out."""


class Scores(NamedTuple):
    """What the network says of a batch."""

    sentences: Tensor
    """Logits; their softmax over a question's sentences gives shares, (sentences,)."""
    tokens: Tensor
    """Logits of being an answer's token, (windows, tokens)."""


class SpanHead(nn.Module):
    """Scores sentences from the states of their tokens.

    A sentence's score is a two-layer net over its mean state, plus the log-sum-exp of its tokens'
    scores (as a question answering head sums over where an answer may stand), plus a learned
    weight times the cosine between its mean state and the question's, plus a linear map of its
    features, which begins at nothing.
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
        number, place = batch.members.nonzero(as_tuple=True)
        own = states[batch.row[number], place]
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
