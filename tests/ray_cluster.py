"""A real Ray cluster of two nodes on loopback: a head and a node that a test may kill.

Each node is a raylet of its own with one CPU and a small object store; the head also keeps the
cluster's books, so that it stays when the other one is lost.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

# Read when ray is imported: without it, Ray takes the machine's own address for 127.0.0.1.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
_SETTINGS = {"num_cpus": 1, "object_store_memory": 80 << 20}
_SOON = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 2,
}
"""How soon a node counts as lost."""


class TwoNodes:
    """The cluster; `kill` ends its second node at once, `whole` starts one again."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._second: Any = None
        self.whole()

    @property
    def address(self) -> str:
        """The address of the head."""
        return str(self._cluster.address)

    def whole(self) -> None:
        """Make sure that there are two nodes."""
        if self._second is None:
            self._second = self._cluster.add_node(**_SETTINGS)

    def kill(self) -> None:
        """Kill the second node, its processes included."""
        (raylet,) = self._second.all_processes["raylet"]
        for pid in _children(raylet.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._cluster.remove_node(self._second, allow_graceful=False)
        self._second = None


def _children(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that these have started."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [one for child in map(int, listed) for one in (child, *_children(child))]


@contextmanager
def two_nodes() -> Iterator[TwoNodes]:
    """Start the cluster and end it."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True,
        head_node_args={**_SETTINGS, "include_dashboard": False, "_system_config": _SOON},
    )
    try:
        yield TwoNodes(cluster)
    finally:
        cluster.shutdown()
