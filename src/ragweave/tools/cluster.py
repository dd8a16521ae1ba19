"""Work as tasks of a Ray cluster, which runs those of a lost node again."""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from ragweave.errors import UsageError, need, one_line_of

LOCAL = "local"
"""The address that means this machine alone."""
_SECRETS = ("_API_KEY", "_BASE_URL", "_API_BASE")
"""Endings of the names of environment variables that tasks need."""
_CLIENTS = ("AWS_", "PG")
"""Beginnings of these names."""
Part = TypeVar("Part")
Result = TypeVar("Result")


def connected(what: str, address: str) -> Any:
    """Connect to a cluster at `auto`, `HOST:PORT`, `ray://HOST:PORT` or `local`; return the module `ray`.

    Raises:
        UsageError: There is no cluster at the address.
        MissingExtraError: Ray, which `what` needs, is not installed.
    """
    need(what, "ray", "ray")
    import ray

    try:
        ray.init(address=address, ignore_reinit_error=True, log_to_driver=False)
    except (ConnectionError, ValueError) as error:
        raise UsageError(f"no Ray cluster at {address}: {one_line_of(error)}") from error
    return ray


def each_on_cluster(
    ray: Any, work: Callable[[Part], Result], parts: Iterable[Part], *, gpus: float = 0.0
) -> Iterator[Result]:
    """Run a task for each part, and yield the results as they come; an error of a task is raised here.

    Args:
        ray: What `connected` returned.
        work: What a task does with its part; done again if the node is lost.
        parts: What the tasks work on.
        gpus: GPUs per task.
    """
    names = (name for name in os.environ if name.endswith(_SECRETS) or name.startswith(_CLIENTS))
    secrets = {name: os.environ[name] for name in names}

    def run(part: Part) -> Result:
        os.environ.update(secrets)
        return work(part)

    task = ray.remote(num_gpus=gpus, max_retries=3)(run)
    waiting = [task.remote(part) for part in parts]
    while waiting:
        [done], waiting = ray.wait(waiting)
        try:
            yield ray.get(done)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
