"""Reading gzip files without trusting what they unpack to.

A few kilobytes of gzip may unpack to gigabytes. Text gets smaller by a factor of 3 to 20, so a
file that grows far more than that while it is read is refused, before it fills the memory.
"""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import BinaryIO, cast

from typing_extensions import Buffer

MOST_TIMES = 100
"""How many times its size a file may unpack to."""
FREE = 2**26
"""Bytes that any file may unpack to, however small it is."""


class UnpackedSizeError(OSError):
    """A gzip file unpacks to more than is plausible; the message is one line for people."""


def open_packed(path: Path) -> BinaryIO:
    """Open a file for reading, unpacked where its name ends in `.gz`.

    Reading raises `UnpackedSizeError` where it unpacks to more than 64 MiB and more than 100 times
    its size.

    Raises:
        OSError: The file cannot be opened.
    """
    if path.suffix.lower() != ".gz":
        return path.open("rb")
    unpacked = _Unpacked(gzip.GzipFile(path), max(FREE, MOST_TIMES * path.stat().st_size))
    return cast("BinaryIO", io.BufferedReader(unpacked, 2**16))


class _Unpacked(io.RawIOBase):
    """A stream of unpacked bytes that ends in an error where there are too many."""

    def __init__(self, stream: gzip.GzipFile, most: int) -> None:
        self._stream, self._left = stream, most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        count = self._stream.readinto(buffer)
        self._left -= count
        if self._left < 0:
            raise UnpackedSizeError(
                f"unpacks to more than {MOST_TIMES} times its size, as text hardly ever does: "
                "unpack it yourself where that is right"
            )
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()
