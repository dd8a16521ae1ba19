"""A stream keeps so many jobs under way, ends by budget, and raises the first error."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from ragweave.tools.journal import Slot, first_error, run_bounded


async def test_so_many_at_once_and_no_more() -> None:
    running, most = 0, 0

    async def work(_job: int, _slot: Slot) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1

    assert await run_bounded(range(20), work, concurrency=3)
    assert most == 3


async def test_a_slow_job_holds_no_other_up() -> None:
    others, done = asyncio.Event(), []

    async def work(job: int, _slot: Slot) -> None:
        if job == 0:
            await asyncio.wait_for(others.wait(), 20)
        done.append(job)
        if len(done) == 9:
            others.set()

    assert await run_bounded(range(10), work, concurrency=2)
    assert done[-1] == 0


async def test_who_leaves_its_slot_makes_room_but_only_for_so_many() -> None:
    begun: list[int] = []
    recorded = asyncio.Event()

    async def work(job: int, slot: Slot) -> None:
        begun.append(job)
        slot.leave()
        slot.leave()
        await recorded.wait()

    stream = asyncio.ensure_future(run_bounded(range(10), work, concurrency=2, finishing=3))
    for _ in range(50):
        await asyncio.sleep(0)
    assert begun == [0, 1, 2, 3, 4]
    recorded.set()
    assert await stream
    assert begun == list(range(10))


async def test_a_spent_budget_begins_nothing_and_finishes_what_is_under_way() -> None:
    done: list[int] = []

    async def work(job: int, _slot: Slot) -> None:
        await asyncio.sleep(0)
        done.append(job)

    assert not await run_bounded(range(9), work, concurrency=2, may_begin=lambda: len(done) < 3)
    assert 3 <= len(done) <= 4


async def test_the_first_error_is_raised_and_jobs_are_taken_no_further() -> None:
    taken: list[int] = []

    def jobs() -> Iterator[int]:
        for job in range(100):
            taken.append(job)
            yield job

    async def work(job: int, _slot: Slot) -> None:
        await asyncio.sleep(0)
        if job == 3:
            raise KeyError("three")

    with pytest.raises(KeyError, match="three"):
        await run_bounded(jobs(), work, concurrency=2)
    assert len(taken) < 10


def test_the_first_error_of_nested_groups() -> None:
    first, second = ValueError("first"), KeyError("second")
    assert first_error(ExceptionGroup("", [ExceptionGroup("", [first]), second])) is first
    assert first_error(second) is second
