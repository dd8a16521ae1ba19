"""Facts of this machine that a local model depends on."""

from __future__ import annotations

import math
import os
from pathlib import Path

from ragweave.errors import UnusableModelError
from ragweave.tools.models.llamacpp.gguf import GGUFFacts

_SPARE = 256 << 20
"""Bytes for compute buffers and everything else in the process."""


def physical_cores() -> int:
    """Return how many physical cores this process may use; at least 1."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    logical = allowed or os.cpu_count() or 1
    listing = Path("/proc/cpuinfo")
    cores = _listed_cores(listing.read_text()) if listing.is_file() else 0
    quota = _quota()
    return max(1, min(n for n in (logical, cores or logical, quota or logical)))


def _listed_cores(text: str) -> int:
    """Count distinct (package, core) pairs of Linux's processor listing."""
    seen: set[tuple[str, str]] = set()
    package = ""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "physical id":
            package = value.strip()
        elif key.strip() == "core id":
            seen.add((package, value.strip()))
    return len(seen)


def _quota() -> int | None:
    """Return the processors that a container's limit allows, rounded up."""
    place = Path("/sys/fs/cgroup/cpu.max")
    if not place.is_file():
        return None
    limit, _, period = place.read_text().strip().partition(" ")
    return math.ceil(int(limit) / int(period)) if limit.isdigit() and period.isdigit() else None


def free_memory() -> int | None:
    """Return bytes of main memory that a new model may take, or None where unknown."""
    free: list[int] = []
    listing = Path("/proc/meminfo")
    if listing.is_file():
        lines = listing.read_text().splitlines()
        free += [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.is_file() and used.is_file() and limit.read_text().strip().isdigit():
        free.append(max(0, int(limit.read_text()) - int(used.read_text())))
    return min(free, default=None)


def needed_memory(facts: GGUFFacts, n_ctx: int) -> int:
    """Estimate the bytes that a model with a context of `n_ctx` tokens takes."""
    return facts.size + (facts.cache_bytes(n_ctx) or 0) + _SPARE


def fitting_context(facts: GGUFFacts, wanted: int | None, *, in_memory: bool) -> int:
    """Return the context to open: what is asked for, else the model's own as far as it fits.

    Args:
        facts: The model file.
        wanted: Tokens asked for; None leaves it to the model and the memory.
        in_memory: Whether the model lives in main memory (no layer is offloaded).

    Raises:
        UnusableModelError: The file and its cache take more memory than there is.
    """
    n_ctx = wanted or facts.context or 4096
    free = free_memory() if in_memory else None
    if free is None or needed_memory(facts, n_ctx) <= free:
        return n_ctx
    a_token = max(1, facts.cache_bytes(1) or 1)
    fits = (free - needed_memory(facts, 0)) // a_token // 256 * 256
    if wanted is None and fits >= 512:
        return int(fits)
    raise UnusableModelError(
        f"{facts.path.name} with n_ctx={n_ctx} needs {needed_memory(facts, n_ctx) / 1e9:.1f} GB "
        f"of memory and {free / 1e9:.1f} GB are free: "
        + (f"lower n_ctx to {fits} or less" if fits >= 512 else "take a smaller model")
    )
