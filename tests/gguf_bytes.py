"""GGUF files changed byte by byte, for models that no writer would make."""

from __future__ import annotations

import struct


def with_new_type(whole: bytes) -> bytes:
    """Return a file of `tiny_gguf` in which one tensor has a type that no build knows."""
    name = b"blk.0.ffn_up.weight"
    at = whole.index(name) + len(name) + 4 + 2 * 8
    return whole[:at] + struct.pack("<I", 999) + whole[at + 4 :]
