"""A run or a labelling on a Ray cluster: one task per shard, each in the folder that `--shard` uses.

    run_on_ray(partial(evaluate, settings, folder), folder, address="auto")

Questions mostly wait for a server, so one process is often enough. A cluster helps if it serves its models on every
node, or if the methods compute (CXMI, rerankers).

If a node is lost, Ray restarts its tasks, which resume from their folders if all nodes share these. If they don't, tasks
return their files, which are written here.
"""

from collections.abc import Callable
from pathlib import Path

from ragweave.evaluation.folder import shard_folder
from ragweave.evaluation.run import Summary
from ragweave.tools.cluster import LOCAL, connected, each_on_cluster
from ragweave.tools.models.budget import Limits

_FILES = ("run.json", "results.jsonl")


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
        work: `evaluate` or `make_labels` with their settings; its files must have the same path on every node.
        folder: The run's folder, preferably one that all nodes share.
        address: The cluster's address: `auto`, `HOST:PORT`, `ray://HOST:PORT`; `local`: this machine alone.
        shards: Number of shards; 0: as many as the run has already, else two per node.
        gpus: GPUs per task.
        limits: The budget of all shards together.

    Raises:
        UsageError: There is no cluster at the address, or `work` refuses its settings.
        MissingExtraError: Ray is not installed.
    """
    folder, ray = folder.resolve(), connected("A run on Ray", address)
    shards = shards or _begun(folder) or 2 * len([node for node in ray.nodes() if node["Alive"]])
    options = {"limits": limits.shared_by(shards)} if limits else {}  # `make_labels` takes none

    def run(shard: str) -> tuple[str, Summary, dict[str, bytes]]:
        summary = work(shard=shard, quiet=True, **options)
        place = shard_folder(folder, shard)
        return shard, summary, {name: (place / name).read_bytes() for name in _FILES}

    total, names = Summary(), [f"{number}/{shards}" for number in range(1, shards + 1)]
    for shard, summary, files in each_on_cluster(ray, run, names, gpus=gpus):
        place = shard_folder(folder, shard)
        place.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            _add(place / name, content)
        total = _added(total, summary)
    return total


def _add(path: Path, content: bytes) -> None:
    """Add what a disk that the nodes don't share lacks: a node may lack what another answered in an earlier run."""
    is_begun = path.suffix == ".jsonl" and path.exists()
    known = {*path.read_bytes().splitlines(keepends=True)} if is_begun else set()
    with path.open("ab" if is_begun else "wb") as file:
        file.writelines(line for line in content.splitlines(keepends=True) if line not in known)


def _begun(folder: Path) -> int:
    """Return the number of shards of a run that has begun; 0 if it has none."""
    return max((int(path.name.rpartition("-")[2]) for path in folder.glob("shard-*-of-*")), default=0)


def _added(first: Summary, second: Summary) -> Summary:
    spent = dict(first.spent)
    for model, counts in second.spent.items():
        spent[model] = [a + b for a, b in zip(counts, spent.get(model, (0, 0, 0)), strict=True)]
    counted = ("answered", "failed", "skipped", "rescored", "asked_again", "gone")
    numbers = {name: getattr(first, name) + getattr(second, name) for name in counted}
    return Summary(**numbers, stopped=first.stopped or second.stopped, spent=spent)
