"""Whether llama.cpp may repack the weights for this processor: tried in a child process first.

llama.cpp's "extra buffers" lay weights out anew for AMX and the like. Compiled by gcc 11 or 12,
the AMX path ends the process with a segmentation fault at the first batch (llama.cpp#20824). So
where AMX would be used, a child decodes a long and a short batch first. If it dies, the model is
loaded without extra buffers: slower, and safe. The verdict is kept, so that later starts pay
nothing.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import ragweave
from ragweave.errors import UnusableModelError
from ragweave.llamacpp.binding import bind
from ragweave.llamacpp.gguf import GGUFFacts

_LOGGER = logging.getLogger("ragweave.llamacpp")

Repack = Literal["auto", "on", "off"]
"""`auto` tries extra buffers in a child process where they are known to crash; `on` and `off` use
them, or not, without a trial."""

_FLAGS = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
REBUILD = (
    "CC=gcc-13 CXX=g++-13 pip install --force-reinstall --no-cache-dir --no-deps "
    "--no-binary llama-cpp-python llama-cpp-python (a newer compiler, fastest), or the same without AMX: "
    f"CMAKE_ARGS='-DGGML_AMX_TILE=OFF -DGGML_AMX_INT8=OFF -DGGML_AMX_BF16=OFF "
    f'-DCMAKE_C_FLAGS="{_FLAGS}" -DCMAKE_CXX_FLAGS="{_FLAGS}"\''
)
"""How to have llama-cpp-python compiled so that nothing must be switched off."""

FAILED = 3
"""Exit code of a trial whose model could not be used, and which said why."""
_CRASHES = {"SIGSEGV", "SIGILL", "SIGBUS", "SIGFPE", "SIGABRT"}
_SECONDS, _SECONDS_A_GB = 120.0, 60.0


@dataclass(frozen=True)
class Speed:
    """Tokens a second."""

    prefill: float
    generation: float


@dataclass(frozen=True)
class Outcome:
    """How a trial ended."""

    death: str = ""
    """What ended the process ("SIGSEGV", "no end after 120 s"); "" where it came to an end."""
    error: str = ""
    """Why the model could not be used, where the trial could say so."""
    speed: Speed | None = None

    @property
    def cause(self) -> str:
        """What kept it from coming to a good end."""
        return self.death or self.error

    @property
    def crashed(self) -> bool:
        """Whether the same would happen again: not so of a child that was killed from outside."""
        return self.death in _CRASHES or self.death.startswith("exit code")


Trial = Callable[[GGUFFacts, dict[str, Any]], Outcome]
"""Tries a model in a child process, with the settings of `ragweave.llamacpp.guard`."""


def extra_buffers(
    facts: GGUFFacts,
    repack: Repack,
    *,
    n_gpu_layers: int = -1,
    trial: Trial | None = None,
    info: str | None = None,
) -> bool:
    """Return whether to load a model with extra buffers.

    Args:
        facts: The model.
        repack: What the caller wants.
        n_gpu_layers: Layers on a GPU; where all are, nothing is repacked.
        trial: Tries the model in a child process; None: `run_trial`.
        info: What llama.cpp says of this system; None asks it.

    Raises:
        UnusableModelError: The child dies with extra buffers and without them.
    """
    if repack != "auto":
        return repack == "on"
    info = system_info() if info is None else info
    if not suspect(info) or _all_on_gpu(facts, n_gpu_layers):
        return True
    place = _verdict_file(facts, info)
    known = _read_verdict(place)
    if known is not None:
        return known
    return _decide(facts, trial or run_trial, place)


def suspect(info: str) -> bool:
    """Say whether llama.cpp would use what is known to crash in some builds."""
    return any(f"AMX_{kind} = 1" in info for kind in ("INT8", "BF16", "TILE"))


def system_info() -> str:
    """Return what llama.cpp says of this processor and its own build."""
    told: bytes = bind().llama_print_system_info()
    return told.decode("utf-8", "replace")


def run_trial(facts: GGUFFacts, settings: dict[str, Any]) -> Outcome:
    """Load a model in a child process, decode a long and a short batch, and say how it ended."""
    if not sys.executable or getattr(sys, "frozen", False):
        return Outcome(death="no interpreter to try it with")
    seconds = _SECONDS + _SECONDS_A_GB * facts.size / 1e9
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter, our own module
            _command(facts, settings),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
            env=_environment(),
        )
    except subprocess.TimeoutExpired:
        return Outcome(death=f"no end after {seconds:.0f} s")
    return _outcome(done.returncode, done.stdout)


def cache_folder() -> Path:
    """Return the folder of what can be found out again; it need not exist.

    `RAGWEAVE_CACHE`, else the platform's own place for caches.
    """
    named = os.environ.get("RAGWEAVE_CACHE")
    if named:
        return Path(named).expanduser()
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA")
        base = Path(home) if home else Path.home() / "AppData" / "Local"
        return base / "ragweave" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "ragweave"
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "ragweave"


def _decide(facts: GGUFFacts, trial: Trial, place: Path) -> bool:
    """Try with extra buffers, then without; keep what was found out."""
    first = trial(facts, {"extra_buffers": True})
    if first.speed is not None:
        _keep_verdict(place, facts, extra=True, cause="")
        return True
    second = trial(facts, {"extra_buffers": False})
    if second.death:
        raise UnusableModelError(
            f"llama.cpp can't run {facts.path.name} on this machine: a trial ended with "
            f"{first.cause}, and without extra buffers with {second.death}; rebuild "
            f"llama-cpp-python for this processor, or set repack=on or off to load it untried"
        )
    if second.speed is None:
        # No model to try it with: loading it says why.
        return not first.death
    if first.crashed or first.error:
        _keep_verdict(place, facts, extra=False, cause=first.cause)
    _LOGGER.warning(
        "llama.cpp ended with %s when %s was tried with weights repacked for this processor; it "
        "runs without (extra buffers off), which is safe and slower. Faster: %s",
        first.cause,
        facts.path.name,
        REBUILD,
    )
    return False


def _all_on_gpu(facts: GGUFFacts, n_gpu_layers: int) -> bool:
    if not bind().llama_supports_gpu_offload():
        return False
    return n_gpu_layers < 0 or n_gpu_layers > (facts.layers or n_gpu_layers)


def _command(facts: GGUFFacts, settings: dict[str, Any]) -> list[str]:
    job = json.dumps({"path": str(facts.path), **settings})
    # -P: a file in the caller's folder must not take the place of a module.
    return [sys.executable, "-P", "-m", "ragweave.llamacpp.trial", job]


def _environment() -> dict[str, str]:
    """Return the child's environment: it imports this very ragweave."""
    home = str(Path(ragweave.__file__).parents[1])
    paths = [home, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    path = os.pathsep.join(filter(None, dict.fromkeys(paths)))
    # ggml would start a debugger to show where it aborted.
    return {**os.environ, "PYTHONPATH": path, "GGML_NO_BACKTRACE": "1"}


def _outcome(code: int, told: str) -> Outcome:
    """Read a child's end: its last line is JSON where it came to one."""
    if code < 0:
        try:
            return Outcome(death=signal.Signals(-code).name)
        except ValueError:
            return Outcome(death=f"signal {-code}")
    lines = told.strip().splitlines()
    said: Any = None
    with suppress(ValueError):
        said = json.loads(lines[-1]) if lines else None
    if code == FAILED and isinstance(said, dict):
        return Outcome(error=str(said.get("error")))
    if code == 0 and isinstance(said, dict):
        return Outcome(speed=Speed(float(said["prefill"]), float(said["generation"])))
    return Outcome(death=f"exit code {code}")


def _verdict_file(facts: GGUFFacts, info: str) -> Path:
    """Return where the verdict on this build, processor and kind of model is kept."""
    key = [_build(), info, facts.architecture, facts.quantisation]
    digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:24]
    return cache_folder() / "llamacpp" / f"{digest}.json"


def _build() -> str:
    """Name the library: its version, and its files, which a rebuild of one version changes."""
    module = bind()
    home = Path(str(module.__file__)).parent / "lib"
    files = sorted(home.glob("*ggml-cpu*")) if home.is_dir() else []
    stamps = [f"{one.name}:{one.stat().st_size}:{one.stat().st_mtime_ns}" for one in files]
    return "|".join([str(module.__version__), *stamps])


def _read_verdict(place: Path) -> bool | None:
    """Return a kept verdict; None where there is none that can be read."""
    try:
        found = json.loads(place.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    extra = found.get("extra_buffers") if isinstance(found, dict) else None
    return extra if isinstance(extra, bool) else None


def _keep_verdict(place: Path, facts: GGUFFacts, *, extra: bool, cause: str) -> None:
    """Write a verdict, whole or not at all; where that fails, the next start tries again."""
    told = {
        "extra_buffers": extra,
        "cause": cause,
        "architecture": facts.architecture,
        "quantisation": facts.quantisation,
    }
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(dir=place.parent, prefix=".verdict-")
        with os.fdopen(number, "w", encoding="utf-8") as file:
            json.dump(told, file)
        Path(name).replace(place)
    except OSError as error:
        _LOGGER.info("the verdict on this build of llama.cpp can't be kept: %s", error)
