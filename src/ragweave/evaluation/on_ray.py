"""A run, or a labelling, on a Ray cluster: one task for each shard, each in the folder that `--shard` gives it.

    run_on_ray(partial(evaluate, settings, folder), folder, address="auto")

What one process can do in a day needs no cluster: questions wait for a server. This is for a cluster that serves
its models on every node, or for methods that compute (CXMI, rerankers).

Ray starts a task again that a lost node took with it, and the task resumes from its folder if all nodes see that.
If they do not, tasks return their files, which are written here.
"""

import os
from collections.abc import Callable
from pathlib import Path

from ragweave.errors import UsageError, need
from ragweave.evaluation.folder import shard_folder
from ragweave.evaluation.run import Summary
from ragweave.tools.models.budget import Limits

LOCAL = "local"
"""The address of this machine alone."""
_FILES = ("run.json", "results.jsonl")
_SECRETS = ("_API_KEY", "_BASE_URL", "_API_BASE")
"""How the names end of the environment's variables that tasks need."""


def run_on_ray(
    work: Callable[..., Summary],
    folder: Path,
    *,
    address: str = LOCAL,
    shards: int = 0,
    gpus: float = 0.0,
    limits: Limits | None = None,
) -> Summary:
    """Run shards on a cluster, and return how they ended.

    Args:
        work: `evaluate` or `make_labels` with their settings; its files must be at the same place on every node.
        folder: The run's folder, at best one that all nodes see.
        address: The cluster's: `auto`, `HOST:PORT`, `ray://HOST:PORT`; `local`: this machine alone.
        shards: In how many shards; 0: as many as the run has already, else two for each node.
        gpus: GPUs of a task.
        limits: What all shards together may spend.

    Raises:
        UsageError: There is no cluster at the address, or `work` refuses its settings.
        MissingExtraError: Ray is not installed.
    """
    need("A run on Ray", "ray", "ray")
    import ray

    folder = folder.resolve()
    try:
        ray.init(address=None if address == LOCAL else address, ignore_reinit_error=True, log_to_driver=False)
    except (ConnectionError, ValueError) as error:
        raise UsageError(f"no Ray cluster at {address}: {' '.join(str(error).split())}") from error
    shards = shards or _begun(folder) or 2 * len([one for one in ray.nodes() if one["Alive"]])  # type: ignore[no-untyped-call]
    given = {"limits": limits.shared_by(shards)} if limits else {}  # `make_labels` takes none
    secrets = {name: value for name, value in os.environ.items() if name.endswith(_SECRETS)}

    @ray.remote(num_gpus=gpus, max_retries=3)
    def task(shard: str) -> tuple[str, Summary, dict[str, bytes]]:
        os.environ.update(secrets)
        summary = work(shard=shard, quiet=True, **given)
        place = shard_folder(folder, shard)
        return shard, summary, {name: (place / name).read_bytes() for name in _FILES}

    waiting, total = [task.remote(f"{number}/{shards}") for number in range(1, shards + 1)], Summary()
    while waiting:
        [done], waiting = ray.wait(waiting)
        shard, summary, files = ray.get(done)
        place = shard_folder(folder, shard)
        place.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            if not (place / name).exists():  # on a disk that the nodes do not share
                (place / name).write_bytes(content)
        total = _added(total, summary)
    return total


def _begun(folder: Path) -> int:
    """Return how many shards a run has been divided into; 0: none yet."""
    return max((int(one.name.rpartition("-")[2]) for one in folder.glob("shard-*-of-*")), default=0)


def _added(one: Summary, other: Summary) -> Summary:
    spent = dict(one.spent)
    for model, counts in other.spent.items():
        spent[model] = [a + b for a, b in zip(counts, spent.get(model, (0, 0, 0)), strict=True)]
    numbers = {name: getattr(one, name) + getattr(other, name) for name in ("answered", "failed", "skipped")}
    return Summary(**numbers, stopped=one.stopped or other.stopped, spent=spent)
