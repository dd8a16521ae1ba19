"""What a span encoder is taught by. Imported where torch is wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ragweave.trained.span_network import SpanEncoder, batch_of, padded
from ragweave.training.encoders.span_rows import Example, SpanSettings

_OUTSIDE = -1e4


def loss_of(
    model: SpanEncoder, filler: int, settings: SpanSettings
) -> Callable[[Sequence[Example]], Tensor]:
    """Return what computes the mean loss of some examples."""

    def loss(examples: Sequence[Example]) -> Tensor:
        batch = batch_of([one.read for one in examples], filler).to(model.device)
        scores = model(batch)
        width = batch.ids.shape[1]
        marks = padded([one for each in examples for one in each.answers], width, 0)
        found = listwise(scores.sentences, examples, settings.every_weight)
        inside = batch.owners >= 0
        answers = answer_loss(scores.tokens, marks.bool().to(model.device), inside)
        return found + settings.answer_weight * answers

    return loss


def listwise(scores: Tensor, examples: Sequence[Example], every_weight: float) -> Tensor:
    """Return the mean over examples of -log of the softmax share of the sentences to keep.

    Where each of them is right by itself, `every_weight` of the loss is instead the mean of their
    own -log shares, which spreads the share over all of them.

    Args:
        scores: Logits of all sentences, (sentences,).
        examples: Whose they are, in order.
        every_weight: In [0, 1].
    """
    losses = []
    sizes = [len(one.sizes) for one in examples]
    for part, one in zip(torch.split(scores, sizes), examples, strict=True):
        share = part.log_softmax(-1)[one.gold]
        weight = every_weight if one.every else 0.0
        losses.append(-(1 - weight) * share.logsumexp(-1) - weight * share.mean())
    return torch.stack(losses).mean()


def answer_loss(tokens: Tensor, marks: Tensor, inside: Tensor) -> Tensor:
    """Return the mean of -log of the answers' share, over the windows that hold an answer.

    Args:
        tokens: Logits of tokens, (windows, tokens).
        marks: Which are an answer's, (windows, tokens).
        inside: Which are a scored sentence's, (windows, tokens).
    """
    held = marks.any(-1)
    if not bool(held.any()):
        return tokens.new_zeros(())
    some = tokens[held]
    right = some.masked_fill(~marks[held], _OUTSIDE).logsumexp(-1)
    return (some.masked_fill(~inside[held], _OUTSIDE).logsumexp(-1) - right).mean()
