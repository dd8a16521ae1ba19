"""The thinking block that reasoning models write before their answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

MARKS: Sequence[tuple[str, str]] = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel>thought", "<channel|>"),
)
"""How blocks begin and end: Qwen3, DeepSeek-R1, SmolLM3 and others; a variant; Mistral; Gemma 4."""

_BLOCK = re.compile(
    "|".join(f"{re.escape(begin)}.*?(?:{re.escape(end)}|\\Z)" for begin, end in MARKS),
    re.DOTALL | re.IGNORECASE,
)
_END = re.compile("|".join(re.escape(end) for _, end in MARKS), re.IGNORECASE)


def without_thinking(reply: str) -> str:
    """Return what a reply says outside of thinking blocks, without space at its ends.

    A block may lack its first mark, for chat templates often write that themselves; what stands
    before a lone last mark is thinking. One that lacks its last mark was cut off: nothing of it is
    an answer.
    """
    return _END.split(_BLOCK.sub("\n", reply))[-1].strip()


def open_mark(prompt: str) -> tuple[str, str] | None:
    """Return the marks of the block that a prompt leaves open at its end; None where none is."""
    text = prompt.rstrip()
    return next((marks for marks in MARKS if text.endswith(marks[0])), None)


class ThinkingFlow:
    """Takes the thinking block off a reply as it grows.

    A block counts at the beginning only: later on the marks are text like any other.
    """

    def __init__(self, marks: tuple[str, str] | None = None) -> None:
        """Begin a reply, inside a block where the prompt opened one with `marks`."""
        self._state: Literal["start", "thinking", "behind", "speaking"]
        self._state = "start" if marks is None else "thinking"
        self._end = "" if marks is None else marks[1]
        self._held = ""
        self.thought = ""
        """What was thought so far."""

    @property
    def thinking(self) -> bool:
        """Whether the block is open."""
        return self._state == "thinking"

    @property
    def end(self) -> str:
        """The mark that ends the open block."""
        return self._end

    def push(self, text: str) -> str:
        """Take text; return what of it is known to be spoken."""
        if self._state == "speaking":
            return text
        self._held += text
        if self._state == "start":
            self._begin()
        if self._state == "thinking":
            self._think()
        if self._state == "behind":
            self._held = self._held.lstrip()
            if self._held:
                self._state = "speaking"
        return self._take() if self._state == "speaking" else ""

    def flush(self) -> str:
        """Return what is held back and spoken: no more text will come."""
        if self._state == "thinking":
            self.thought += self._take()
        return self._take()

    def _begin(self) -> None:
        said = self._held.lstrip()
        for begin, end in MARKS:
            if said.startswith(begin):
                self._state, self._end, self._held = "thinking", end, said[len(begin) :]
                return
        if not any(begin.startswith(said) for begin, _ in MARKS):
            self._state = "speaking"

    def _think(self) -> None:
        thought, mark, rest = self._held.partition(self._end)
        if mark:
            self.thought += thought
            self._state, self._held = "behind", rest
            return
        keep = next(n for n in range(len(self._end) - 1, -1, -1) if thought.endswith(self._end[:n]))
        cut = len(thought) - keep
        self.thought += thought[:cut]
        self._held = thought[cut:]

    def _take(self) -> str:
        held, self._held = self._held, ""
        return held
