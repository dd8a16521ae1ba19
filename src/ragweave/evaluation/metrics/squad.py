"""Exact match and F1 by the SQuAD rule.

Source: Rajpurkar et al. 2016, 2018; the rule of the owners' evaluation scripts. `unigram_f1` is
the same token F1, which KILT (Petroni et al. 2021) and FILCO (Wang et al. 2023, section 3.1) use
for long answers.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def squad_normalize(text: str) -> str:
    """Lower-case, drop ASCII punctuation, then articles, then fold white space.

    Unlike `ragweave.tools.text.normalize`, it leaves typographic quotes alone, as the script does.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, golds: Iterable[str]) -> float:
    """Return 1.0 where `answer` equals any gold answer normalised, else 0.0.

    Gold answers of which nothing is left normalised don't count; with none left, the question has
    no answer, and "" is the right one.
    """
    given = squad_normalize(answer)
    return float(any(given == squad_normalize(gold) for gold in _usable(golds)))


def f1(answer: str, golds: Iterable[str]) -> float:
    """Return the best token F1 of `answer` with any gold answer, 0 to 1.

    Where either has no token, it is 1.0 if both have none, else 0.0.
    """
    return max(_f1(answer, gold) for gold in _usable(golds))


unigram_f1 = f1


def output_precision(context: str, golds: Iterable[str]) -> float:
    """Return the share of the context's tokens that stand in a gold answer, at best, 0 to 1.

    Source: FILCO (Wang et al. 2023), table 3: unigram precision of gold outputs in a context.
    """
    tokens = squad_normalize(context).split()
    if not tokens:
        return 0.0
    best = max(_common(tokens, squad_normalize(gold).split()) for gold in _usable(golds))
    return best / len(tokens)


def _usable(golds: Iterable[str]) -> list[str]:
    return [gold for gold in golds if squad_normalize(gold)] or [""]


def _f1(answer: str, gold: str) -> float:
    given, right = squad_normalize(answer).split(), squad_normalize(gold).split()
    if not given or not right:
        return float(given == right)
    common = _common(given, right)
    return 2 * common / (len(given) + len(right))


def _common(one: list[str], other: list[str]) -> int:
    return sum((Counter(one) & Counter(other)).values())
