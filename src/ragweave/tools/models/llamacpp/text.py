"""From the bytes of tokens to text that can be shown: no thinking, cut at stop sequences."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from ragweave.tools.text.thinking import ThinkingFlow


class TextFlow:
    """Turns token bytes into text as it grows.

    A thinking block at the beginning is kept apart; stop sequences do not count in it. A character whose bytes are not complete and a text that may be the beginning of a stop
    sequence are held back; tokens are counted elsewhere, held back or not.
    """

    def __init__(self, stops: Sequence[str] = (), *, marks: tuple[str, str] | None = None) -> None:
        """Begin a reply.

        Args:
            stops: Texts that end it; they are not part of it.
            marks: The marks of a thinking block that the prompt opened.
        """
        self.thinking = ThinkingFlow(marks)
        self._stops = [stop for stop in stops if stop]
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self.stopped = False
        """Whether a stop sequence was met."""

    def push(self, piece: bytes) -> str:
        """Take the bytes of one token; return the text that is now certain."""
        return self._release(self.thinking.push(self._decoder.decode(piece)))

    def flush(self) -> str:
        """Return what is held back: no more bytes will come."""
        rest = self.thinking.push(self._decoder.decode(b"", final=True)) + self.thinking.flush()
        out = self._release(rest)
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
