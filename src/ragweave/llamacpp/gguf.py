"""The header of a GGUF file, read and checked before llama.cpp sees it.

llama.cpp trusts much of a header: some wrong values abort the process. This reader never reads
past the file's end, whatever lengths the header claims, and rejects what would be fatal.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ragweave.errors import UnusableModelError

_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?"}
_NUMBERS |= {10: "<Q", 11: "<q", 12: "<d"}
_UINT32, _INT32, _FLOAT32, _STRING, _ARRAY = 4, 5, 6, 8, 9
_MAX_TEXT = 1 << 26
_MAX_KEPT_TEXT = 1 << 20
"""Bytes; longer texts (a whole tokenizer.json, say) are skipped."""
_CHUNK = 4096
_MAX_PAIRS = 1 << 16
_MAX_ITEMS = 1 << 23
_MAX_TENSORS = 1 << 17
_ENCODERS = ("bert", "t5", "neo-bert", "eurobert", "clip", "wavtokenizer", "gemma-embedding")

_TYPES = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 36),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
}
"""Name, values a block and bytes a block of ggml's tensor types."""
_REMOVED = {4, 5, 31, 32, 33, 36, 37, 38}
"""Types that llama.cpp no longer supports."""
RECURRENT = ("mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7")
"""Architectures without attention, whose files state 0 heads."""


class Tensor(NamedTuple):
    """One tensor as the header lists it."""

    name: str
    shape: tuple[int, ...]
    type: int
    """ggml's number of the type."""
    offset: int
    """Bytes from the beginning of the data."""

    @property
    def type_name(self) -> str:
        """The type's name, or its number where this reader does not know it."""
        return _TYPES[self.type][0] if self.type in _TYPES else f"type {self.type}"

    @property
    def size(self) -> int | None:
        """Bytes of data; None for a type that this reader does not know."""
        if self.type not in _TYPES:
            return None
        _, block, width = _TYPES[self.type]
        return math.prod(self.shape) // block * width


@dataclass(frozen=True)
class GGUFFacts:
    """What the header of one model file says; a size that it does not state is None."""

    path: Path
    size: int
    """Bytes on disk; of a split model, those of all its files that are there."""
    metadata: Mapping[str, Any]
    """All single values; of a short array of numbers the largest; other arrays are left out."""
    n_tensors: int
    tensor_types: Mapping[int, str] = field(default_factory=dict)
    """Names of the tensors' types by ggml's number."""
    vocabulary: int | None = None
    """Number of tokens that the model knows."""
    others: int = 0
    """Bytes of a split model's other files, which `size` includes."""
    lists: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Short arrays of whole numbers or flags, such as a size for each layer."""

    @property
    def architecture(self) -> str:
        """The model family, such as `llama` or `qwen2`."""
        return str(self.metadata.get("general.architecture", ""))

    @property
    def name(self) -> str:
        """The model's name in one line, or the file's where it states none."""
        stated = " ".join(str(self.metadata.get("general.name") or "").split())
        return stated[:100] or self.path.stem

    @property
    def quantisation(self) -> str:
        """The types of the tensors, such as `F32+Q4_K+Q6_K`."""
        return "+".join(sorted(self.tensor_types.values()))

    @property
    def context(self) -> int | None:
        """Longest context that the model was trained for, in tokens."""
        return self.count("context_length")

    @property
    def layers(self) -> int | None:
        """Number of transformer blocks."""
        return self.count("block_count")

    @property
    def template(self) -> str | None:
        """The Jinja chat template."""
        found = self.metadata.get("tokenizer.chat_template")
        return found if isinstance(found, str) else None

    @property
    def embedding_only(self) -> bool:
        """Whether the model is an encoder or makes embeddings, and so does not generate text."""
        name = self.architecture
        if self.metadata.get(f"{name}.attention.causal") is False or name.endswith("bert"):
            return True
        return (self.count("pooling_type") or 0) > 0 or name.startswith(_ENCODERS)

    def count(self, key: str) -> int | None:
        """Return a whole number of the architecture, the largest where there is one for each layer.

        Args:
            key: What follows the architecture's name, such as `attention.head_count`.
        """
        found = self.metadata.get(f"{self.architecture}.{key}")
        return found if isinstance(found, int) and not isinstance(found, bool) else None


def read_gguf(path: str | Path) -> GGUFFacts:
    """Read and check a GGUF file's header.

    Raises:
        UnusableModelError: The file is missing, not a file, empty, a Git LFS pointer, not GGUF, of
            an unknown version, incomplete, or its header contradicts itself.
    """
    path = Path(path).expanduser()
    if not path.exists():
        raise UnusableModelError(f"no model file at {path}")
    if not path.is_file():
        raise UnusableModelError(f"{path} is not a file: give the path of a .gguf file")
    try:
        with path.open("rb") as file:
            _check_magic(path, file)
            size = path.stat().st_size
            return _facts(path, size, _Header(file, size))
    except PermissionError as error:
        raise UnusableModelError(f"can't read {path}: permission denied") from error
    except (struct.error, EOFError) as error:
        raise UnusableModelError(f"{path} is cut short: download it again") from error
    except ValueError as error:
        if isinstance(error, UnusableModelError):
            raise
        raise UnusableModelError(f"{path} is a damaged GGUF file: {error}") from error


def _check_magic(path: Path, file: BinaryIO) -> None:
    start = file.read(40)
    if start.startswith(b"version https://git-lfs"):
        raise UnusableModelError(f"{path} is a Git LFS pointer, not the model: run 'git lfs pull'")
    if not start.startswith(b"GGUF"):
        raise UnusableModelError(f"{path} is not a GGUF file")
    file.seek(4)


def _facts(path: Path, size: int, header: _Header) -> GGUFFacts:
    _check_values(header)
    types: dict[int, str] = {}
    for tensor in header.tensors():
        types[tensor.type] = tensor.type_name
        end = tensor.offset + (tensor.size or 0)
        if tensor.type in _REMOVED:
            raise UnusableModelError(
                f"can't load {path.name}: llama.cpp no longer supports its quantisation "
                f"({tensor.type_name}): convert the model again"
            )
        header.need_data(end)
    if header.missing:
        raise UnusableModelError(
            f"can't load {path.name}: the file is incomplete, {header.missing:,} bytes are "
            "missing: download it again"
        )
    _, vocabulary = header.arrays.get("tokenizer.ggml.tokens", (None, None))
    others = sum(part.stat().st_size for part in _other_parts(path, header.metadata))
    return GGUFFacts(
        path,
        size + others,
        header.metadata,
        header.n_tensors,
        types,
        vocabulary,
        others,
        header.lists,
    )


def _other_parts(path: Path, metadata: Mapping[str, Any]) -> list[Path]:
    """Return the other files of a split model, as llama.cpp names them, that are there."""
    end = _SPLIT.search(path.name)
    if end is None or int(end[2]) != metadata.get("split.count"):
        return []
    return [part for part in split_files(path) if part != path]


_SPLIT = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")


def split_files(path: Path) -> list[Path]:
    """Return the files of a model that are there, in order, given the path of one of them.

    By their names alone, as llama.cpp gives them: `m-00001-of-00002.gguf`, `m-00002-of-00002.gguf`.
    """
    end = _SPLIT.search(path.name)
    if end is None or not 1 <= int(end[1]) <= int(end[2]):
        return [path]
    stem, count = path.name[: end.start()], int(end[2])
    named = (path.with_name(f"{stem}-{n:05d}-of-{end[2]}.gguf") for n in range(1, count + 1))
    return [part for part in named if part.is_file()]


def _check_values(header: _Header) -> None:
    """Check the arrays whose errors would abort llama.cpp's process.

    Raises:
        ValueError: One is wrong.
    """
    tokens = header.arrays.get("tokenizer.ggml.tokens")
    kinds = {"tokens": _STRING, "merges": _STRING, "scores": _FLOAT32, "token_type": _INT32}
    for name, kind in kinds.items():
        found = header.arrays.get(f"tokenizer.ggml.{name}")
        if found is None:
            continue
        if found[0] != kind:
            raise ValueError(f"tokenizer.ggml.{name} has the wrong type")
        if name in ("scores", "token_type") and (tokens is None or found[1] != tokens[1]):
            raise ValueError(f"tokenizer.ggml.{name} does not match the tokens")
    _check_numbers(header)


def _check_numbers(header: _Header) -> None:
    """Check the sizes and constants that llama.cpp divides by or asserts.

    Raises:
        ValueError: One is impossible.
    """
    architecture = header.metadata.get("general.architecture", "")
    for name in ("embedding_length", "block_count", "attention.head_count", "context_length"):
        value = header.metadata.get(f"{architecture}.{name}")
        least = int(name != "attention.head_count" or architecture not in RECURRENT)
        if value is not None and not (isinstance(value, int) and least <= value < 1 << 31):
            raise ValueError(f"impossible {name}")
    for key, value in header.metadata.items():
        if isinstance(value, float) and not (math.isfinite(value) and (value >= 0 or _signed(key))):
            raise ValueError(f"impossible {key[:60]}")


def _signed(key: str) -> bool:
    """Return whether a number may be negative as far as llama.cpp is concerned."""
    return not key.endswith(("epsilon", "freq_base"))


class _Header:
    """A GGUF header, read value by value within the file's size."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        """Read the metadata; `tensors` reads the list of tensors that follows it.

        Raises:
            EOFError: The file ends first.
            ValueError: A value is impossible.
        """
        self._file, self._size = file, size
        self.metadata: dict[str, Any] = {}
        self.arrays: dict[str, tuple[int, int]] = {}
        """Type and length of each array."""
        self.lists: dict[str, tuple[int, ...]] = {}
        self._alignment = 32
        self._needed = 0
        version, self.n_tensors, n_pairs = self._unpack("<IQQ")
        if version not in (2, 3):
            raise ValueError(f"version {version} is not supported (2 and 3 are)")
        if self.n_tensors > _MAX_TENSORS or n_pairs > _MAX_PAIRS:
            raise ValueError("impossible counts in the header")
        for _ in range(n_pairs):
            self._pair()

    def tensors(self) -> Iterator[Tensor]:
        """Read the list of tensors, which follows the metadata; can be called once."""
        names: set[str] = set()
        for _ in range(self.n_tensors):
            name = self._text()
            (n_dims,) = self._unpack("<I")
            if n_dims > 4 or name in names or len(name) > 255:
                raise ValueError("impossible tensor in the header")
            names.add(name)
            shape = self._unpack(f"<{n_dims}Q")
            kind, offset = self._unpack("<IQ")
            if math.prod(max(1, one) for one in shape) >= 1 << 62 or offset % self._alignment:
                raise ValueError(f"impossible size or offset of tensor {name[:60]!r}")
            if kind in _TYPES and shape and shape[0] % _TYPES[kind][1]:
                raise ValueError(f"tensor {name[:60]!r} does not fill its blocks")
            yield Tensor(name, shape, kind, offset)

    def need_data(self, end: int) -> None:
        """Note that the data extends at least to `end`."""
        self._needed = max(self._needed, end)

    @property
    def missing(self) -> int:
        """How many bytes of data the file lacks, once all tensors are read."""
        start = -(-self._file.tell() // self._alignment) * self._alignment
        return max(0, start + self._needed - self._size)

    def _pair(self) -> None:
        key = self._text()
        if key in self.metadata or key in self.arrays:
            raise ValueError(f"{key[:60]!r} appears twice")
        (kind,) = self._unpack("<I")
        value = self._array(key) if kind == _ARRAY else self._single(kind)
        if key == "general.alignment":
            if kind != _UINT32 or value not in {1 << n for n in range(3, 21)}:
                raise ValueError("impossible alignment")
            self._alignment = value
        if value is not None:
            self.metadata[key] = value

    def _single(self, kind: int) -> Any:
        if kind in _NUMBERS:
            return self._unpack(_NUMBERS[kind])[0]
        if kind != _STRING:
            raise ValueError(f"unknown value type {kind}")
        return self._text(_MAX_KEPT_TEXT)

    def _array(self, key: str) -> Any:
        """Read an array; return the largest of numbers, None for any other array."""
        inner, count = self._unpack("<IQ")
        if count > _MAX_ITEMS:
            raise ValueError("impossible array length")
        self.arrays[key] = inner, count
        if inner in _NUMBERS:
            return self._largest(key, _NUMBERS[inner], count)
        if inner != _STRING:
            raise ValueError(f"unknown array type {inner}")
        if key == "tokenizer.ggml.tokens":
            self._check_tokens(count)
            return None
        for _ in range(count):
            self._skip(self._text_length())
        return None

    def _check_tokens(self, count: int) -> None:
        """Read the tokens' texts: llama.cpp aborts where two are the same up to a null character."""
        seen: set[bytes] = set()
        named = 0
        for _ in range(count):
            text = self._take(self._text_length()).partition(b"\0")[0]
            named += bool(text)
            if text:
                seen.add(text)
        if len(seen) < named:
            raise ValueError("two tokens have the same text")

    def _largest(self, key: str, code: str, count: int) -> Any:
        """Read numbers; some models list a size per layer, of which the largest bounds memory."""
        length = count * struct.calcsize(code)
        if count > 4096:
            self._skip(length)
            return None
        found = [value for (value,) in struct.iter_unpack(code, self._take(length))]
        if all(isinstance(one, int) for one in found):
            self.lists[key] = tuple(map(int, found))
        return max((v for v in found if not math.isnan(v)), default=None)

    def _text(self, most: int | None = None) -> Any:
        """Read a text; None where it is longer than `most` bytes."""
        length = self._text_length()
        if most is not None and length > most:
            self._skip(length)
            return None
        return self._take(length).decode("utf-8", "replace")

    def _text_length(self) -> int:
        (length,) = self._unpack("<Q")
        if length > _MAX_TEXT:
            raise ValueError("impossible text length")
        return int(length)

    def _unpack(self, code: str) -> tuple[Any, ...]:
        return struct.unpack(code, self._file.read(struct.calcsize(code)))

    def _take(self, length: int) -> bytes:
        if length > self._size - self._file.tell():
            raise EOFError
        return self._file.read(length)

    def _skip(self, length: int) -> None:
        if length < _CHUNK:  # a tokenizer has hundreds of thousands of short texts
            if len(self._file.read(length)) < length:
                raise EOFError
            return
        if length > self._size - self._file.tell():
            raise EOFError
        self._file.seek(length, 1)
