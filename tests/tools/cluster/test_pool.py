"""A pool of processes on nodes: where they start, what they do, and what becomes of a loss."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Any

import pytest
from tests.tools.cluster.actors import Ray

from ragweave.errors import UsageError
from ragweave.tools.cluster import Ask, LostNodeError, NoNodeError, Pool, Work, pool
from ragweave.tools.cluster.node import Host
from ragweave.tools.cluster.pool import environment
from ragweave.tools.process_errors import ProcessError

if find_spec("ray") is None:
    pytest.skip('needs: pip install "ragweave[ray]"', allow_module_level=True)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_PAUSE", 0.0)


def doing(work: Work) -> Callable[[], Awaitable[Work]]:
    async def make() -> Work:
        return work

    return make


async def double(number: int, _ask: Ask) -> int:
    return 2 * number


def run(ray: Ray, work: Work, act: Callable[[Pool], Awaitable[Any]], **settings: Any) -> Any:
    async def main() -> Any:
        async with Pool(ray, doing(work), **{"jobs": 8, **settings}) as made:
            return await act(made)

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("cpus", "jobs", "whole", "places"),
    [
        ((4, 4), 8, False, "12"),
        ((4, 4), 64, False, "12121212"),
        ((1, 4), 16, False, "1222"),
        ((4, 4, 4), 2, False, "12"),
        ((8, 8), 64, True, "12"),
        ((0, 2), 8, False, "22"),
    ],
)
def test_a_process_starts_on_each_node_before_a_second_on_any(
    cpus: tuple[int, ...], jobs: int, whole: bool, places: str
) -> None:
    ray = Ray(*cpus)

    async def act(made: Pool) -> list[int]:
        return await asyncio.gather(*(made.do(lambda _a, n=n: n) for n in range(20)))

    assert run(ray, double, act, jobs=jobs, whole_nodes=whole) == [2 * n for n in range(20)]
    assert "".join(ray.places) == places


def test_whole_nodes_have_a_process_a_gpu() -> None:
    ray = Ray(8, gpus=2)
    run(ray, double, lambda made: made.do(lambda _attempt: 1), whole_nodes=True)
    assert [one.options["num_gpus"] for one in ray.actors] == [1, 1]


def test_a_job_asks_its_driver_which_hears_what_is_told_first() -> None:
    heard: list[Any] = []

    async def work(_job: Any, ask: Ask) -> Any:
        ask.tell("told")
        return await ask("asked")

    async def serve(request: Any) -> Any:
        heard.append(request)
        return f"{request} {len(heard)}"

    found = run(Ray(1), work, lambda made: made.do(lambda _attempt: 0, serve))
    assert (found, heard) == ("asked 2", ["told", "asked"])


def test_a_lost_job_begins_again_elsewhere_once_what_it_asked_is_served() -> None:
    ray, seen = Ray(1, 1), []

    async def work(attempt: int, ask: Ask) -> int:
        return attempt if attempt else await ask("slow")

    async def serve(_request: Any) -> None:
        ray.actors[0].lose()
        await asyncio.sleep(0.05)
        seen.append("served")

    def job(attempt: int) -> int:
        seen.append(f"begun {attempt}")
        return attempt

    lost = lambda: seen.append("lost")  # noqa: E731
    assert run(ray, work, lambda made: made.do(job, serve, lost)) == 1
    assert seen == ["begun 0", "lost", "served", "begun 1"]


def test_a_job_that_ends_its_node_each_time_is_given_up() -> None:
    ray = Ray(1)

    async def work(_job: Any, _ask: Ask) -> None:
        ray.actors[-1].lose()
        await asyncio.sleep(10)

    with pytest.raises(LostNodeError, match="3 times"):
        run(ray, work, lambda made: made.do(lambda _attempt: 0))
    assert len(ray.actors) >= 3


def test_when_no_node_is_left_the_work_ends() -> None:
    ray = Ray(1)

    async def work(_job: Any, _ask: Ask) -> None:
        ray.nodes()[0]["Alive"] = False
        ray.actors[-1].lose()
        await asyncio.sleep(10)

    with pytest.raises(NoNodeError, match="can be resumed"):
        run(ray, work, lambda made: made.do(lambda _attempt: 0))


def test_errors_of_a_node_are_raised_as_those_of_this_process() -> None:
    async def wrong(_job: Any, _ask: Ask) -> None:
        raise UsageError("no such model")

    async def broken(_job: Any, _ask: Ask) -> None:
        raise ZeroDivisionError("a fault of ours")

    async def refused(_request: Any) -> None:
        raise UsageError("the disk is full")

    async def asks(_job: Any, ask: Ask) -> None:
        await ask("write")

    with pytest.raises(UsageError, match="no such model"):
        run(Ray(1), wrong, lambda made: made.do(lambda _attempt: 0))
    with pytest.raises(ProcessError, match="a node: ZeroDivisionError: a fault") as caught:
        run(Ray(1), broken, lambda made: made.do(lambda _attempt: 0))
    assert "in broken" in caught.value.__notes__[0]
    with pytest.raises(UsageError, match="the disk is full"):
        run(Ray(1), asks, lambda made: made.do(lambda _attempt: 0, refused))


def test_what_cannot_be_opened_on_a_node_ends_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    async def make() -> Work:
        raise UsageError("model.gguf: no such file")

    async def main() -> None:
        async with Pool(Ray(1), make, jobs=1):
            pass

    with pytest.raises(UsageError, match="no such file"):
        asyncio.run(main())

    async def other(_host: Host) -> str:
        return "0.0.1"

    monkeypatch.setattr(Host, "hello", other)
    with pytest.raises(UsageError, match=r"has ragweave 0\.0\.1, this is .* the same version"):
        asyncio.run(main())


def test_a_cluster_without_a_free_cpu_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_host: Host) -> str:
        await asyncio.sleep(10)
        return ""

    monkeypatch.setattr(Host, "hello", never)
    monkeypatch.setattr(pool, "_START_SECONDS", 0.01)
    with pytest.raises(UsageError, match="had a free CPU"):
        run(Ray(2), double, lambda made: made.do(lambda _attempt: 0))


def test_nodes_take_over_keys_and_addresses_and_nothing_else() -> None:
    given = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "u", "PGPASSWORD": "p"}
    assert environment({**given, "HOME": "/", "GITHUB_TOKEN": "t", "PATH": ""}) == given
