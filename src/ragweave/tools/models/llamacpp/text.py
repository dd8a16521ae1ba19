"""From the bytes of tokens to text that can be shown, cut at stop sequences."""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class TextFlow:
    """Turns token bytes into text as it grows.

    A character whose bytes are not complete and a text that may be the beginning of a stop
    sequence are held back; tokens are counted elsewhere, held back or not.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        """Take the texts that end a reply; they are not part of it."""
        self._stops = [stop for stop in stops if stop]
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self.stopped = False
        """Whether a stop sequence was met."""

    def push(self, piece: bytes) -> str:
        """Take the bytes of one token; return the text that is now certain."""
        return self._release(self._decoder.decode(piece))

    def flush(self) -> str:
        """Return what is held back: no more bytes will come."""
        out = self._release(self._decoder.decode(b"", final=True))
        held, self._held = self._held, ""
        return out if self.stopped else out + held

    def _release(self, text: str) -> str:
        if self.stopped:
            return ""
        text = self._held + text
        found = [place for stop in self._stops if (place := text.find(stop)) >= 0]
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
