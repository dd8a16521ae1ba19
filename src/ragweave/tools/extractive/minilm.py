"""MiniLM sentence embeddings, where the `offline` extra is installed: lazy, cached, thread-safe."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING

from ragweave.errors import MissingExtraError
from ragweave.tools.retrieval.embedding import packaged_available
from ragweave.tools.retrieval.onnx_embedding import encode

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_CACHE_SIZE = 10_000
_WORKER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="minilm")
"""One model and one thread a process: each thread that called torch would keep a team of OpenMP
threads of its own, which fight for the cores."""
_CACHE: OrderedDict[str, NDArray[np.float32]] = OrderedDict()


@cache
def available() -> bool:
    """Are the packaged MiniLM and what runs it installed? Imports neither."""
    return packaged_available()


def cosines(query: str, texts: list[str]) -> list[float]:
    """Return the cosine similarity of `query` to each of `texts`; one batch for what is new.

    Raises:
        MissingExtraError: The packages are not installed.
    """
    if not texts:
        return []
    vectors = _WORKER.submit(_vectors, [query, *texts]).result()
    first = vectors[0]
    return [float(first @ vector) for vector in vectors[1:]]


def _vectors(texts: list[str]) -> list[NDArray[np.float32]]:
    """Return unit vectors (384) of `texts`, from the cache where possible."""
    known = {text: _CACHE[text] for text in texts if text in _CACHE}
    new = [text for text in dict.fromkeys(texts) if text not in known]
    if new:
        batch = _encoder()(new)
        known.update(zip(new, batch, strict=True))
    for text, vector in known.items():
        _CACHE[text] = vector
        _CACHE.move_to_end(text)
    while len(_CACHE) > _CACHE_SIZE:
        _CACHE.popitem(last=False)
    return [known[text] for text in texts]


@cache
def _encoder() -> Callable[[list[str]], NDArray[np.float32]]:
    """Return what makes unit vectors."""
    if not available():
        raise MissingExtraError("The MiniLM similarity of the extractive model", "offline")
    return encode
