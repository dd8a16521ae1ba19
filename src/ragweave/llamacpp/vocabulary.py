"""Text to tokens and back.

`Vocabulary` is the model file's own tokenizer (thread-safe). `TextFlow` turns the bytes of a
growing reply into text that can be shown: without the thinking block, cut at stop sequences.
"""

from __future__ import annotations

import codecs
import ctypes
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragweave.errors import ModelError
from ragweave.tools.text.reply import MARKS, ThinkingFlow

_CONTROL = 8 | 16
"""Attribute bits of control and user-defined tokens (llama.h, `llama_token_attr`)."""
_SHOWN = {text for begin, end in MARKS for text in (begin, begin.removesuffix("thought"), end)}
"""Names of control tokens whose text is shown: they mark a thinking block."""
_CHANNELS = {"<|start|>", "<|channel|>", "<|message|>"}
"""Those that mark one together, in gpt-oss; other models have one of them for something else."""


class Vocabulary:
    """The tokenizer of a loaded model."""

    def __init__(self, lib: Any, model: Any) -> None:
        """Take the binding and a loaded model, which must outlive this object."""
        self._lib = lib
        self.pointer = lib.llama_model_get_vocab(model)
        self.size = int(lib.llama_vocab_n_tokens(self.pointer))
        self.end = int(lib.llama_vocab_eos(self.pointer))
        self.start = int(lib.llama_vocab_bos(self.pointer))
        self.adds_start = bool(lib.llama_vocab_get_add_bos(self.pointer))
        self._pieces: dict[int, bytes] = {}
        self._lock = threading.RLock()
        self._closed = False

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the model from being freed in the meantime.

        Raises:
            ModelError: It was already freed.
        """
        with self._lock:
            if self._closed:
                raise ModelError("the model was closed")
            yield

    def close(self) -> None:
        """Reject all further use: the model is about to be freed."""
        with self._lock:
            self._closed = True

    def encode(self, text: str, *, start: bool = False, special: bool = False) -> list[int]:
        """Return the tokens of `text`.

        Args:
            text: Any text.
            start: Whether to add the start token where the model expects one.
            special: Whether the texts of control tokens become those tokens; False reads them as
                plain text, but for user-defined ones (see `quoted`).

        Raises:
            ModelError: The tokenizer rejects the text.
        """
        data = text.encode("utf-8", "replace")
        room = len(data) + 8
        while True:
            out = (ctypes.c_int32 * room)()
            with self.in_use():
                count = self._lib.llama_tokenize(
                    self.pointer, data, len(data), out, room, start, special
                )
            if count >= 0:
                return list(out[:count])
            if -count <= room:
                raise ModelError(f"the tokenizer rejected a text of {len(data)} bytes")
            room = -count

    def quoted(self, text: str) -> list[int]:
        """Return the tokens of a control token's name that stands in text from outside, as letters.

        llama.cpp takes the names of user-defined tokens for those tokens even in plain text, and
        what gpt-oss marks roles with are such. Other user-defined tokens, of spaces or HTML, say,
        are text.
        """
        if text in _SHOWN or text.startswith("<|") or text.endswith("|>"):
            return self.encode(text[:1]) + self.encode(text[1:])
        return self.encode(text)

    def piece(self, token: int) -> bytes:
        """Return the bytes that a token stands for; control tokens stand for none."""
        found = self._pieces.get(token)
        if found is None:
            with self.in_use():
                found = self._pieces[token] = self._read_piece(token)
        return found

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens; invalid UTF-8 becomes replacement characters."""
        return b"".join(map(self.piece, tokens)).decode("utf-8", "replace")

    def ends(self, token: int) -> bool:
        """Whether the token ends a reply."""
        with self.in_use():
            return bool(self._lib.llama_vocab_is_eog(self.pointer, token))

    def text(self, token: int) -> str:
        """Return a token's name as the file has it."""
        with self.in_use():
            name = self._lib.llama_vocab_get_text(self.pointer, token)
        return name.decode("utf-8", "replace") if name else ""

    @cached_property
    def control_texts(self) -> tuple[str, ...]:
        """Names of the control tokens, which untrusted text must never produce."""
        return tuple(name for token in self._controls if (name := self.text(token)))

    @cached_property
    def silent(self) -> NDArray[np.int64]:
        """The control tokens that stand for no text and end no reply, such as a turn's beginning."""
        silent = [one for one in self._controls if not self.piece(one) and not self.ends(one)]
        return np.array(silent, int)

    @cached_property
    def _controls(self) -> list[int]:
        attribute = self._lib.llama_vocab_get_attr
        with self.in_use():
            return [one for one in range(self.size) if attribute(self.pointer, one) & _CONTROL]

    @cached_property
    def _has_channels(self) -> bool:
        return _CHANNELS.issubset(self.control_texts)

    def _shown(self, token: int, piece: bytes) -> bytes:
        """Return a token's `piece`, or its name where it begins or ends a thinking block.

        llama.cpp itself shows some of gpt-oss' marks, and does so in every model that has one.
        """
        name = self.text(token)
        if name in _CHANNELS:
            return name.encode() if self._has_channels else b""
        return piece or (name.encode() if name in _SHOWN else b"")

    def _read_piece(self, token: int) -> bytes:
        room = 64
        while True:
            buffer = ctypes.create_string_buffer(room)
            count = self._lib.llama_token_to_piece(self.pointer, token, buffer, room, 0, False)
            if count >= 0:
                return self._shown(token, buffer.raw[:count])
            room = -count


class TextFlow:
    """Turns token bytes into text as it grows.

    A thinking block at the beginning is kept apart; stop sequences are ignored in it. Incomplete
    characters, and text that may be the beginning of a stop sequence, are held back. Tokens are
    counted elsewhere, held back or not.
    """

    def __init__(self, stops: Sequence[str] = (), *, marks: tuple[str, str] | None = None) -> None:
        """Start a reply.

        Args:
            stops: Texts that end it; they are not part of it.
            marks: The marks of a thinking block that the prompt opened.
        """
        self.thinking = ThinkingFlow(marks)
        self._stops = [stop for stop in stops if stop]
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._spoken = 0
        self.stopped = False
        """Whether a stop sequence was found."""
        self.released = 0
        """Characters returned so far."""

    @property
    def position(self) -> int:
        """Where in the reply's text the next token begins, text held back included."""
        return self._spoken + self.thinking.undecided

    @property
    def dropping(self) -> bool:
        """Whether all that has come behind a thinking block is white space, which is dropped."""
        return self.thinking.behind and not self._decoder.getstate()[0]

    def push(self, piece: bytes) -> str:
        """Take the bytes of one token; return the text that is now certain."""
        return self._release(self.thinking.push(self._decoder.decode(piece)))

    def flush(self) -> str:
        """Return what is held back: no more bytes will come."""
        rest = self.thinking.push(self._decoder.decode(b"", final=True)) + self.thinking.flush()
        out = self._release(rest)
        if self.stopped:
            return out
        held, self._held = self._held, ""
        self.released += len(held)
        return out + held

    def _release(self, text: str) -> str:
        if self.stopped:
            return ""
        self._spoken += len(text)
        certain = self._certain(self._held + text)
        self.released += len(certain)
        return certain

    def _certain(self, text: str) -> str:
        found = [index for stop in self._stops if (index := text.find(stop)) >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)]
        keep = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def _overlap(text: str, stop: str) -> int:
    """Return how many last characters of `text` are the beginning of `stop`."""
    for size in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:size]):
            return size
    return 0
