"""Choosing an arm by successive halving, and confirming it on questions kept back. Nothing here asks a model.

An **arm** is one way to answer: a method with its options, search and prompts. The first is the **incumbent**, which is
used unless another beats it. A race is a generator: it yields which arms are to answer which questions, and is sent all
answers so far. Each step follows from the answers alone, so a resumed race takes the same steps.

Sources: Jamieson and Talwalkar 2016 (successive halving); Noreen 1989 (paired randomisation test).
"""

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, fmean, stdev
from typing import NamedTuple, TypeAlias

from ragweave.evaluation.statistics import Interval, bootstrap, compare

ALPHA, POWER = 0.05, 0.8
"""How often an arm that is no better may replace the incumbent; how sure the forecast of a larger test is."""
RESERVED = 2 / 3
"""The share of questions kept back: a race needs few questions to find a good arm, a test many to show that it is one."""
MIN_BLOCK = 6
"""Minimum questions that an arm answers before it may leave."""

_DEVIATION = 0.58
"""The standard deviation of the differences in F1 between two methods, as measured by `benchmarks/tune.py`."""


class Answer(NamedTuple):
    """What counts of an answer."""

    score: float
    """From 0 to 1."""
    cost: float
    """Tokens, or dollars."""
    calls: int = 0


Answers: TypeAlias = Mapping[str, Mapping[str, Answer]]
"""By arm and question."""
Ask: TypeAlias = Callable[[Sequence[str], Sequence[str]], Awaitable[Answers]]
"""Asks arms the next block of questions, and returns all answers so far."""


@dataclass(frozen=True)
class Goal:
    """What the winner must be."""

    within: float | None = None
    """None: the highest score. A number: the cheapest whose score is not lower than the incumbent's by more."""

    def ranked(
        self, arms: Sequence[str], answers: Answers, asked: Sequence[str], *, is_last: bool = False
    ) -> list[str]:
        """Return arms, the best first; ties keep their order, so that the incumbent stays ahead.

        They are compared on the questions that all of them answered, except arms that failed on most, which come last.
        """
        incumbent = arms[0]
        failing = [arm for arm in arms if 2 * sum(question in answers[arm] for question in asked) < len(asked)]
        running = [arm for arm in arms if arm not in failing]
        shared = [question for question in asked if all(question in answers[arm] for arm in running)]
        if not shared or incumbent in failing:
            return [*arms]

        def place(arm: str) -> tuple[bool, float]:
            score, cost = (fmean(answers[arm][question][at] for question in shared) for at in (0, 1))
            if self.within is None or arm == incumbent:
                return False, -score if self.within is None else cost
            gaps = [answers[arm][question].score - answers[incumbent][question].score for question in shared]
            error = stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else 0.0
            # Doubt speaks for an arm while it can still be settled, and against it once it can't.
            fits = fmean(gaps) + (-error / 2 if is_last else error) >= -self.within
            return not fits, cost if fits else -score

        return [*sorted(running, key=place), *failing]


def block_sizes(arms: int, questions: int) -> list[tuple[int, int]]:
    """Return, for each block, how many arms answer it and how many questions have been answered after it.

    The last two arms meet on all questions.
    """
    cuts = max(0, math.ceil(math.log2(max(arms, 2))) - 1)
    size, alive, blocks = min(questions, max(MIN_BLOCK, math.ceil(questions / 2**cuts))), arms, list[tuple[int, int]]()
    while not blocks or blocks[-1][1] < questions:
        blocks.append((alive, size))
        size, alive = min(questions, size * 2), max(2, math.ceil(alive / 2))
    return blocks


async def race(
    arms: Sequence[str], questions: Sequence[str], goal: Goal, ask: Ask
) -> AsyncIterator[tuple[str, int, dict[str, float]]]:
    """Yield the leader, the number of answered questions, and the means of all arms that answered them, block by block.

    The last leader is the finalist; if it is the incumbent, there is nothing to confirm. After each block the better half
    stays, and the next block doubles the questions. The incumbent answers every block, because every comparison is paired
    with it.
    """
    incumbent, done, alive = arms[0], 0, [*arms]
    for count, size in block_sizes(len(arms), len(questions)):
        entered = [incumbent, *(arm for arm in alive[:count] if arm != incumbent)]
        answers = await ask(entered, questions[done:size])
        done, asked = size, questions[:size]
        alive = goal.ranked(entered, answers, asked, is_last=done == len(questions))
        scores = {arm: [answers[arm][name].score for name in asked if name in answers[arm]] for arm in entered}
        yield alive[0], done, {arm: fmean(values) for arm, values in scores.items() if values}


class Verdict(NamedTuple):
    """Whether the finalist replaces the incumbent."""

    wins: bool
    gain: Interval
    """The finalist's score less the incumbent's, on the questions kept back."""
    cost: float
    """The finalist's cost as a multiple of the incumbent's."""
    p: float | None
    """One-sided p-value; None if the interval decides (`Goal.within`)."""
    needed: int | None
    """Questions kept back that would show this difference with a chance of 80 %; None: no number would."""


def confirm(finalist: Sequence[Answer], incumbent: Sequence[Answer], goal: Goal) -> Verdict:
    """Test the finalist once, on questions that had no part in choosing it."""
    ours, theirs = [answer.score for answer in finalist], [answer.score for answer in incumbent]
    gaps = [score - other for score, other in zip(ours, theirs, strict=True)]
    cost = fmean(answer.cost for answer in finalist) / (fmean(answer.cost for answer in incumbent) or 1.0)
    if goal.within is None:
        comparison = compare(ours, theirs)
        p = comparison.p / 2 if comparison.difference.mean > 0 else 1 - comparison.p / 2
        return Verdict(p <= ALPHA, comparison.difference, cost, p, needed(gaps, 0, ALPHA))
    # Without an imagined loss, an arm that differs on no question kept back would pass, however few these are.
    careful = bootstrap([*gaps, -1.0])
    gain = replace(bootstrap(gaps), low=careful.low)
    return Verdict(
        careful.low > -goal.within and cost < 1, gain, cost, None, needed([*gaps, -1.0], -goal.within, ALPHA / 2)
    )


def needed(gaps: Sequence[float], null: float, alpha: float) -> int | None:
    """Return how many pairs would show that the mean of gaps like these is above `null`; None if it is not above."""
    above = fmean(gaps) - null
    if above <= 0 or len(gaps) < 2:
        return None
    sides = NormalDist().inv_cdf(1 - alpha) + NormalDist().inv_cdf(POWER)
    return math.ceil((sides * max(stdev(gaps), 1e-9) / above) ** 2)


def detectable(reserved: int) -> float:
    """Return the gain of a single challenger that so many questions kept back confirm one time in two."""
    return NormalDist().inv_cdf(1 - ALPHA) * _DEVIATION / math.sqrt(reserved)
