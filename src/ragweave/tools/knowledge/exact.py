"""The vectors of a small generation in a file of their own, compared with a query one by one.

Chroma holds every vector, and is what a large knowledge base searches. For a small one it costs
more than it saves: importing it takes longer than comparing with each of 20,000 vectors, and its
index is approximate. So a writer copies the vectors beside the BM25 index, in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FILE = "vectors.npy"
MOST_NUMBERS = 2**23
"""Most numbers that are copied: 32 MiB, which is 21,845 vectors of 384 dimensions."""


def unit_rows(vectors: Sequence[Sequence[float]] | NDArray[np.float32]) -> NDArray[np.float32]:
    """Return vectors as rows of length 1; zeros stay zeros, and what is no number becomes one."""
    rows = np.nan_to_num(np.asarray(vectors, dtype=np.float32))
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    made: NDArray[np.float32] = rows / np.maximum(lengths, np.finfo(np.float32).tiny)
    return made


def nearest_rows(
    rows: NDArray[np.float32], vector: Sequence[float], k: int
) -> list[tuple[int, float]]:
    """Return up to `k` (row, cosine similarity), nearest first, ties by row.

    Args:
        rows: Vectors (n, dimension) of length 1.
        vector: The query's embedding, of any length.
        k: How many, at least 1.
    """
    scores = rows @ unit_rows([vector])[0]
    chosen = np.arange(len(scores))
    if len(scores) > k:
        least = np.partition(scores, len(scores) - k)[len(scores) - k]
        chosen = np.flatnonzero(scores >= least)
    best = chosen[np.lexsort((chosen, -scores[chosen]))][:k]
    return [(int(row), float(scores[row])) for row in best]


def fits(passages: int, dimension: int | None) -> bool:
    """Return whether so many vectors are copied."""
    return dimension is not None and 0 < passages * dimension <= MOST_NUMBERS


def save(folder: Path, rows: NDArray[np.float32]) -> None:
    """Write the vectors of a generation, in the order of its BM25 index, to its folder."""
    np.save(folder / FILE, rows, allow_pickle=False)


def mapped(folder: Path, passages: int, dimension: int | None) -> NDArray[np.float32] | None:
    """Return a generation's vectors memory-mapped, or None where they were not copied.

    Raises:
        ValueError: They are not of this number and dimension, or the file is no array.
        OSError: It cannot be read.
    """
    path = folder / FILE
    if not path.exists():
        return None
    # A plain array over the mapped memory: numpy's memmap class makes every slice dear.
    rows = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    if rows.dtype != np.float32 or rows.shape != (passages, dimension):
        raise ValueError(f"{FILE} holds {rows.dtype} {rows.shape}, not ({passages}, {dimension})")
    return rows
