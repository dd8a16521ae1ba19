"""Texts cut to a number of tokens, at the ends of words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from ragweave.errors import UsageError
from ragweave.tools.parts.forms import PartInput


class Fitting(NamedTuple):
    """A text that fits."""

    text: str
    cut: bool


def fit_input(tokenizer: Any, given: PartInput, limit: int) -> Fitting:
    """Cut the body of an input so that the whole takes at most `limit` tokens, special ones too.

    FILCO's code cuts the tokens of the whole text at their end, which for the generator is the
    question; here the question stays, and the context loses its end.

    Raises:
        UsageError: Head and tail alone are longer.
    """

    def whole(body: str) -> str:
        return given.head + body + given.tail

    def fits(body: str) -> bool:
        return len(tokenizer(whole(body), verbose=False)["input_ids"]) <= limit

    if fits(given.body):
        return Fitting(given.text, False)
    if not fits(""):
        raise UsageError(
            f"the question alone is longer than the {limit} tokens that the model reads: "
            f"{whole('')[:80]!r}"
        )
    return Fitting(whole(_longest(given.body, fits)), True)


def fit_target(tokenizer: Any, target: str, limit: int) -> Fitting:
    """Cut a target to `limit` tokens, of which the end token is one."""

    def fits(text: str) -> bool:
        ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return len(ids) < limit

    return Fitting(target, False) if fits(target) else Fitting(_longest(target, fits), True)


def _longest(text: str, fits: Callable[[str], bool]) -> str:
    """Return the longest beginning of `text` that fits, at a word's end where one fits."""
    ends = [match.end() for match in re.finditer(r"\S+", text)]
    found = _last(ends, lambda end: fits(text[:end]))
    if found == 0:
        found = _last(range(1, (ends or [0])[0] + 1), lambda end: fits(text[:end]))
    return text[:found]


def _last(ends: Any, fits: Callable[[int], bool]) -> int:
    """Return the last end that fits, by halving, or 0."""
    low, high, best = 0, len(ends) - 1, 0
    while low <= high:
        middle = (low + high) // 2
        if fits(ends[middle]):
            low, best = middle + 1, ends[middle]
        else:
            high = middle - 1
    return best
