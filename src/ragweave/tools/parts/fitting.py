"""Texts cut to a number of tokens, at the ends of words."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ragweave.errors import UsageError
from ragweave.tools.parts.forms import PartInput


class Fitting(NamedTuple):
    """A text that fits."""

    text: str
    tokens: list[int]
    """As the tokenizer gives them, special ones too where they were asked for."""
    cut: bool


def fit_input(tokenizer: Any, given: PartInput, limit: int) -> Fitting:
    """Cut the body of an input so that the whole takes at most `limit` tokens, special ones too.

    FILCO's code cuts the tokens of the whole text at their end, which for the generator is the
    question; here the question stays, and the context loses its end.

    Raises:
        UsageError: Head and tail alone are longer.
    """

    def tokens(body: str) -> list[int]:
        return _tokens(tokenizer, given.head + body + given.tail)

    whole = tokens(given.body)
    if len(whole) <= limit:
        return Fitting(given.text, whole, False)
    least = tokens("")
    if len(least) > limit:
        raise UsageError(
            f"the question alone is longer than the {limit} tokens that the model reads: "
            f"{(given.head + given.tail)[:80]!r}"
        )
    share = (limit - len(least)) / max(1, len(whole) - len(least))
    body = _longest(given.body, lambda text: len(tokens(text)) <= limit, share)
    return Fitting(given.head + body + given.tail, tokens(body), True)


def fit_target(tokenizer: Any, target: str, limit: int) -> Fitting:
    """Cut a target to `limit` tokens, of which the end token, which is not put there, is one."""
    whole = _tokens(tokenizer, target, special=False)
    if len(whole) < limit:
        return Fitting(target, whole, False)

    def fits(text: str) -> bool:
        return len(_tokens(tokenizer, text, special=False)) < limit

    text = _longest(target, fits, (limit - 1) / len(whole))
    return Fitting(text, _tokens(tokenizer, text, special=False), True)


def _tokens(tokenizer: Any, text: str, *, special: bool = True) -> list[int]:
    return list(tokenizer(text, add_special_tokens=special, verbose=False)["input_ids"])


def _longest(text: str, fits: Callable[[str], bool], share: float) -> str:
    """Return the longest beginning of `text` that fits, at a word's end where one fits.

    Args:
        text: What is too long.
        fits: Whether a beginning fits.
        share: About how much of the text will.
    """
    ends = [match.end() for match in re.finditer(r"\S+", text)]
    guess = bisect_right(ends, int(share * len(text))) - 1
    found = _last(ends, lambda end: fits(text[:end]), guess)
    if found == 0 and ends:
        found = _last(range(1, ends[0] + 1), lambda end: fits(text[:end]), 0)
    return text[:found]


def _last(ends: Sequence[int], fits: Callable[[int], bool], guess: int) -> int:
    """Return the last end that fits, or 0: by growing steps from a guess, then by halving."""
    low, high = -1, len(ends)
    place, step = guess, 1
    while low + 1 < high:
        place = min(max(place, low + 1), high - 1)
        if fits(ends[place]):
            low = place
        else:
            high = place
        bounded = low >= 0 and high < len(ends)
        place = (low + high) // 2 if bounded else low + step if low >= 0 else high - step
        step *= 2
    return ends[low] if low >= 0 else 0
