"""What computes in this process learns by when its run must end."""

from __future__ import annotations

import asyncio
import threading

import pytest

from ragweave.errors import RunTimeoutError
from ragweave.tools.deadline import TimeLimit, ending_within
from ragweave.tools.threads import in_thread


def limit(own: float | None = None) -> TimeLimit:
    return TimeLimit(own, "the model")


@pytest.mark.parametrize(
    ("own", "run", "said"),
    [
        (0.0, None, "the model took longer than 0.0 seconds"),
        (0.0, 60.0, "the model took longer than 0.0 seconds"),
        (60.0, 0.0, "the run's time limit was reached"),
        (None, 0.0, "the run's time limit was reached"),
    ],
)
def test_the_earlier_of_two_limits_counts(own: float | None, run: float | None, said: str) -> None:
    with ending_within(run):
        found = limit(own)
    assert found.left() == 0.0
    with pytest.raises(RunTimeoutError, match=said):
        raise found.error()


def test_without_a_limit_nothing_ends() -> None:
    assert limit().left() is None
    with ending_within(None):
        assert limit().left() is None
    with ending_within(float("inf")):
        assert limit().left() == threading.TIMEOUT_MAX


def test_a_limit_within_a_limit_is_no_longer_and_ends_with_its_block() -> None:
    with ending_within(1.0):
        with ending_within(60.0):
            assert (limit().left() or 60.0) <= 1.0
        with ending_within(None):
            assert (limit().left() or 60.0) <= 1.0
        with ending_within(0.0):
            assert limit().left() == 0.0
        assert (limit().left() or 0.0) > 0.0
    assert limit().left() is None


def test_threads_and_tasks_begun_meanwhile_have_the_limit_too() -> None:
    with ending_within(0.0):
        future = in_thread(lambda: limit().left())
    assert future.result(10) == 0.0

    async def asked() -> float | None:
        with ending_within(0.0):
            return await asyncio.to_thread(lambda: limit().left())

    assert asyncio.run(asked()) == 0.0
