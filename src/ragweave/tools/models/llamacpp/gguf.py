"""What a GGUF file says of itself, read without loading it.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ragweave.errors import ModelError

_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?"}
_NUMBERS |= {10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_MAX_TEXT = 1 << 26
_MAX_ITEMS = 1 << 26
_ENCODERS = ("bert", "t5", "neo-bert", "eurobert", "clip", "wavtokenizer", "gemma-embedding")


@dataclass(frozen=True)
class GGUFFacts:
    """Facts of one model file; a size that the file does not state is None."""

    path: Path
    size: int
    """Bytes on disk."""
    metadata: Mapping[str, Any]
    """All single values; arrays are left out."""
    n_tensors: int

    @property
    def architecture(self) -> str:
        """The model family, such as `llama` or `qwen2`."""
        return str(self.metadata.get("general.architecture", ""))

    @property
    def name(self) -> str:
        """The model's name, or the file's where it states none."""
        return str(self.metadata.get("general.name") or self.path.stem)

    @property
    def context(self) -> int | None:
        """Longest context that the model was trained for, in tokens."""
        return self._count("context_length")

    @property
    def layers(self) -> int | None:
        """Number of transformer blocks."""
        return self._count("block_count")

    @property
    def template(self) -> str | None:
        """The Jinja chat template."""
        found = self.metadata.get("tokenizer.chat_template")
        return found if isinstance(found, str) else None

    @property
    def embedding_only(self) -> bool:
        """Whether the model makes embeddings or encodes, and so writes no text."""
        causal = self.metadata.get(f"{self.architecture}.attention.causal")
        pooled = self._count("pooling_type") or 0
        return causal is False or pooled > 0 or _is_encoder(self.architecture)

    def cache_bytes(self, n_ctx: int) -> int | None:
        """Return the size of a 16-bit key-value cache of `n_ctx` tokens, or None if unknown."""
        layers, width = self.layers, self._count("embedding_length")
        heads = self._count("attention.head_count")
        if not (layers and width and heads):
            return None
        kv_heads = self._count("attention.head_count_kv") or heads
        keys = self._count("attention.key_length") or width // heads
        values = self._count("attention.value_length") or width // heads
        return 2 * n_ctx * layers * kv_heads * (keys + values)

    def _count(self, key: str) -> int | None:
        found = self.metadata.get(f"{self.architecture}.{key}")
        return found if isinstance(found, int) and not isinstance(found, bool) else None


def _is_encoder(architecture: str) -> bool:
    return architecture.endswith("bert") or architecture.startswith(_ENCODERS)


def read_gguf(path: str | Path) -> GGUFFacts:
    """Read a GGUF file's header.

    Raises:
        ModelError: The file is missing, no file, empty, a Git LFS pointer, no GGUF, of an
            unknown version, or cut short in its header.
    """
    place = Path(path).expanduser()
    if not place.exists():
        raise ModelError(f"no model file at {place}")
    if not place.is_file():
        raise ModelError(f"{place} is not a file: name a .gguf file")
    try:
        with place.open("rb") as file:
            _check_magic(place, file)
            metadata, n_tensors = _header(file)
    except PermissionError as error:
        raise ModelError(f"can't read {place}: permission denied") from error
    except (struct.error, EOFError) as error:
        raise ModelError(f"{place} is cut short: download it again") from error
    except ValueError as error:
        raise ModelError(f"{place} is a damaged GGUF file: {error}") from error
    return GGUFFacts(place, place.stat().st_size, metadata, n_tensors)


def _check_magic(place: Path, file: BinaryIO) -> None:
    start = file.read(40)
    if start.startswith(b"version https://git-lfs"):
        raise ModelError(f"{place} is a Git LFS pointer, not the model: run 'git lfs pull'")
    if not start.startswith(b"GGUF"):
        raise ModelError(f"{place} is not a GGUF file")
    file.seek(4)


def _header(file: BinaryIO) -> tuple[dict[str, Any], int]:
    version, n_tensors, n_pairs = _unpack(file, "<IQQ")
    if version not in (2, 3):
        raise ValueError(f"version {version} is not known (2 and 3 are)")
    if max(n_tensors, n_pairs) > _MAX_ITEMS:
        raise ValueError("impossible counts in the header")
    metadata: dict[str, Any] = {}
    for _ in range(n_pairs):
        key = _text(file)
        value = _value(file, _unpack(file, "<I")[0])
        if value is not None:
            metadata[key] = value
    return metadata, n_tensors


def _value(file: BinaryIO, kind: int) -> Any:
    """Read one value; an array of numbers yields its largest, any other array None."""
    if kind in _NUMBERS:
        return _unpack(file, _NUMBERS[kind])[0]
    if kind == _STRING:
        return _text(file)
    if kind != _ARRAY:
        raise ValueError(f"unknown value type {kind}")
    inner, count = _unpack(file, "<IQ")
    if count > _MAX_ITEMS:
        raise ValueError("impossible array length")
    if inner in _NUMBERS:
        return _largest(file, _NUMBERS[inner], count)
    if inner != _STRING:
        raise ValueError(f"unknown array type {inner}")
    for _ in range(count):
        _skip_text(file)
    return None


def _largest(file: BinaryIO, code: str, count: int) -> Any:
    """Read numbers; some models list a size a layer, of which the largest bounds memory."""
    data = _bytes(file, count * struct.calcsize(code))
    if count > 4096:
        return None
    found = [value for (value,) in struct.iter_unpack(code, data)]
    return max((v for v in found if not math.isnan(v)), default=None)


def _text(file: BinaryIO) -> str:
    (length,) = _unpack(file, "<Q")
    if length > _MAX_TEXT:
        raise ValueError("impossible text length")
    return _bytes(file, length).decode("utf-8", "replace")


def _skip_text(file: BinaryIO) -> None:
    (length,) = _unpack(file, "<Q")
    if length > _MAX_TEXT:
        raise ValueError("impossible text length")
    _bytes(file, length)


def _unpack(file: BinaryIO, code: str) -> tuple[Any, ...]:
    return struct.unpack(code, file.read(struct.calcsize(code)))


def _bytes(file: BinaryIO, length: int) -> bytes:
    data = file.read(length)
    if len(data) < length:
        raise EOFError
    return data
