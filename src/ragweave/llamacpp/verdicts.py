"""Verdicts on models, cached by library build, processor, placement and kind of model.

Whether a model crashes holds for all of its architecture and quantisation. Whether extra buffers
make it faster is a matter of one model: the rows of a smaller one may not fit the blocks of its
quantisation, and are then stored otherwise.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
import platform
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from ragweave.llamacpp.gguf import GGUFFacts
from ragweave.tools.files import parse_json, write_atomic

_LOGGER = logging.getLogger("ragweave.llamacpp")

SLOWER = "slower"


@dataclass(frozen=True)
class Verdict:
    """Whether to use extra buffers, on one build and processor."""

    extra: bool
    cause: str = ""
    """Why not: how the process failed, or `slower`."""


def verdict_file(
    facts: GGUFFacts,
    info: str,
    place: str = "cpu",
    *,
    flash_attention: bool | None = None,
    gpus: Sequence[str] = (),
) -> Path:
    """Return the file that caches the verdict on this build, processor and kind of model.

    Args:
        facts: The model.
        info: llama.cpp's description of this system.
        place: Where the layers are: `cpu`, `gpu` or `both`.
        flash_attention: The setting of the load.
        gpus: Names of the devices that hold layers: several machines may share the cache's folder.
    """
    return _file([*_kind(facts, info), _processor(), place, flash_attention, *gpus])


def speed_file(facts: GGUFFacts, info: str) -> Path:
    """Return the file that caches which choice is faster for this model."""
    own = facts.size - facts.others
    return _file([*_kind(facts, info), _processor(), facts.name, facts.layers, own])


def _kind(facts: GGUFFacts, info: str) -> list[object]:
    return [_build(), info, facts.architecture, facts.quantisation]


def _file(key: list[object]) -> Path:
    digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:24]
    return cache_folder() / "llamacpp" / f"{digest}.json"


def library_file() -> Path | None:
    """Return the file that says that this build loads on this processor; None without a build."""
    return _file(["library", _build(), _processor()]) if _library() else None


def _build() -> str:
    """Identify the library by its version and its files, which a rebuild changes; load nothing."""
    version = ""
    with suppress(metadata.PackageNotFoundError):  # only unpacked somewhere
        version = metadata.version("llama-cpp-python")
    home = _library()
    files = sorted(home.glob("*ggml-cpu*")) if home is not None and home.is_dir() else []
    stamps = [f"{one.name}:{one.stat().st_size}:{one.stat().st_mtime_ns}" for one in files]
    own = [] if _own_library() is None else [str(home)]  # it may have no file of such a name
    return "|".join([version, *own, *stamps])


def _library() -> Path | None:
    """Return the folder of the library; None where llama-cpp-python is not installed."""
    found = importlib.util.find_spec("llama_cpp")
    if found is None or not found.origin:
        return None
    return _own_library() or Path(found.origin).parent / "lib"


def _own_library() -> Path | None:
    """Return the folder that llama-cpp-python is told to take its library from."""
    named = os.environ.get("LLAMA_CPP_LIB_PATH")
    return None if named is None else Path(named).absolute()


def _processor() -> str:
    """Identify the processor: several machines may share the folder of the cache.

    llama.cpp's own description says what it was compiled for.
    """
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text("utf-8", "replace").splitlines() if listing.is_file() else []
    found = {line.partition(":")[0].strip(): line for line in reversed(lines)}
    named = [found[key] for key in ("model name", "flags", "Features") if key in found]
    return "|".join([platform.machine(), platform.processor(), *named])


def read_verdict(path: Path) -> Verdict | None:
    """Return the cached verdict; None where there is none that can be read."""
    try:
        found = parse_json(path.read_text("utf-8"))
    except OSError:
        return _UNWRITTEN.get(path)
    except ValueError:
        return None
    extra = found.get("extra_buffers") if isinstance(found, dict) else None
    return Verdict(extra, str(found.get("cause", ""))) if isinstance(extra, bool) else None


_UNWRITTEN: dict[Path, Verdict] = {}
"""Verdicts of this process that could not be written."""


def settle_verdict(path: Path, facts: GGUFFacts, verdict: Verdict) -> None:
    """Write a verdict; where that fails, remember it in this process."""
    if not keep_verdict(path, facts, verdict):
        _UNWRITTEN[path] = verdict


def keep_verdict(path: Path, facts: GGUFFacts, verdict: Verdict) -> bool:
    """Write a verdict, whole or not at all, and return whether it was written."""
    content = {
        "extra_buffers": verdict.extra,
        "cause": verdict.cause,
        "architecture": facts.architecture,
        "quantisation": facts.quantisation,
    }
    return keep(path, content)


def keep(path: Path, content: Mapping[str, Any]) -> bool:
    """Write an object, whole or not at all, and return whether it was written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(content), sync=False)
    except OSError as error:
        _warn_of_cache(path.parent, error.strerror or str(error))
        return False
    return True


@cache
def _warn_of_cache(folder: Path, reason: str) -> None:
    _LOGGER.warning(
        "can't write to %s (%s): each process tries llama.cpp and its models anew, which slows "
        "down their first load; set RAGWEAVE_CACHE to a folder that can be written to",
        folder,
        reason,
    )


def cache_folder() -> Path:
    """Return the cache folder: `RAGWEAVE_CACHE`, else the platform's own; it need not exist."""
    named = os.environ.get("RAGWEAVE_CACHE")
    if named:
        return Path(named).expanduser()
    try:
        return _users_cache()
    except RuntimeError:  # a user without a home, as in many containers
        return Path(tempfile.gettempdir()) / f"ragweave-{getattr(os, 'getuid', int)()}"


def _users_cache() -> Path:
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA")
        base = Path(home) if home else Path.home() / "AppData" / "Local"
        return base / "ragweave" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "ragweave"
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "ragweave"
