"""Padding what was read to the tensors of a batch. Imported where torch is wanted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ragweave.tools.parts.spans.reading import NOBODY, Read


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
    place: list[int] = []
    number: list[int] = []
    for at, window in enumerate(windows):
        own = sorted({one for one in window.owners if one >= 0})
        place += [at] * len(own)
        number += own
    row = torch.tensor(place)
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
    """Yield the positions of sheets of like length, at least one and about `size` windows a time."""
    group: list[int] = []
    windows = 0
    for at in sorted(range(len(reads)), key=lambda i: -reads[i].length):
        if group and windows + len(reads[at].windows) > size:
            yield group
            group, windows = [], 0
        group.append(at)
        windows += len(reads[at].windows)
    if group:
        yield group
