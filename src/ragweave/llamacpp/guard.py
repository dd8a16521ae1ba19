"""Whether llama.cpp may repack the weights for this processor: tried in a child process first.

llama.cpp's "extra buffers" repack weights for AMX and the like. Compiled by gcc 11 or 12, the AMX
path ends the process with a segmentation fault at the first batch (llama.cpp#20824). So where AMX
would be used, a child process decodes a long and a short batch first. If it crashes, the model is
loaded without extra buffers: slower, but safe. The verdict is cached, so that later starts need
no trial.

On other processors extra buffers can be the slower choice (Q4_K on a processor with AVX2 alone).
`measure_buffers`, which `ragweave doctor` calls, measures both and caches the faster.
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
from ragweave.tools.files import parse_json

_LOGGER = logging.getLogger("ragweave.llamacpp")

Repack = Literal["auto", "on", "off"]
"""`auto` tries extra buffers in a child process where they are known to crash; `on` and `off` use
them, or not, without a trial."""

_FLAGS = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
REBUILD = (
    "CC=gcc-13 CXX=g++-13 pip install --force-reinstall --no-cache-dir --no-deps "
    "--no-binary llama-cpp-python llama-cpp-python (a newer compiler), or the same without AMX: "
    f"CMAKE_ARGS='-DGGML_AMX_TILE=OFF -DGGML_AMX_INT8=OFF -DGGML_AMX_BF16=OFF "
    f'-DCMAKE_C_FLAGS="{_FLAGS}" -DCMAKE_CXX_FLAGS="{_FLAGS}"\''
)
"""How to compile llama-cpp-python so that extra buffers can stay on.

Inferred from llama.cpp#20824, which names gcc 11 and 12; not tried on a processor with AMX.
"""

FAILED = 3
"""Exit code of a trial whose model could not be used, and which reported why."""
_CRASHES = {"SIGSEGV", "SIGILL", "SIGBUS", "SIGFPE", "SIGABRT"}
_SECONDS, _SECONDS_A_GB = 120.0, 60.0
SLOWER = "slower"
_GAIN = 1.05
"""How much faster the model must be without extra buffers; less could be chance."""


@dataclass(frozen=True)
class Speed:
    """Tokens a second."""

    prefill: float
    generation: float

    @property
    def seconds(self) -> float:
        """Seconds of a call that reads 1,000 tokens and writes 30, as methods here often do."""
        return 1000 / self.prefill + 30 / self.generation


@dataclass(frozen=True)
class Outcome:
    """How a trial ended."""

    ending: str = ""
    """How the process failed ("SIGSEGV", "a timeout after 120 s"); "" where it ended normally."""
    error: str = ""
    """Why the model could not be used, where the trial reported it."""
    speed: Speed | None = None

    @property
    def cause(self) -> str:
        """Why the trial failed."""
        return self.ending or self.error

    @property
    def crashed(self) -> bool:
        """Whether the same would happen again; a child killed from outside does not count."""
        return self.ending in _CRASHES or self.ending.startswith("exit code")


@dataclass(frozen=True)
class Verdict:
    """Whether to use extra buffers, for one build, processor and kind of model."""

    extra: bool
    cause: str = ""
    """Why not: how the process failed, or `slower`."""


Trial = Callable[[GGUFFacts, dict[str, Any]], Outcome]
"""Tries a model in a child process, with the settings of `ragweave.llamacpp.trial.measure`."""


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
        repack: The caller's choice.
        n_gpu_layers: Layers on a GPU; where all are, nothing is repacked.
        trial: Tries the model in a child process; None: `run_trial`.
        info: llama.cpp's description of this system; None asks llama.cpp.

    Raises:
        UnusableModelError: The child crashes both with extra buffers and without them.
    """
    if repack != "auto":
        return repack == "on"
    info = system_info() if info is None else info
    if _all_on_gpu(facts, n_gpu_layers):
        return True
    path = _verdict_file(facts, info)
    known = _read_verdict(path)
    if known is not None:
        return known.extra
    return not uses_amx(info) or _decide(facts, trial or run_trial, path)


def measure_buffers(
    facts: GGUFFacts,
    repack: Repack,
    settings: dict[str, Any],
    *,
    trial: Trial | None = None,
    info: str | None = None,
) -> tuple[bool, dict[bool, Outcome]]:
    """Measure a model in child processes; cache the faster choice, which `auto` uses from then on.

    Args:
        facts: The model.
        repack: The caller's choice; unless it is `auto`, only that choice is measured, and nothing
            is cached.
        settings: Settings of `ragweave.llamacpp.trial.measure`, such as `prompt` and `reply`.
        trial: As in `extra_buffers`.
        info: As in `extra_buffers`.

    Returns:
        Whether a load with the same `repack` uses extra buffers, and the outcome of each choice
        that was measured.

    Raises:
        UnusableModelError: The child crashes both with extra buffers and without them.
    """
    info, trial = system_info() if info is None else info, trial or run_trial
    layers = settings.get("n_gpu_layers", -1)
    extra = extra_buffers(facts, repack, n_gpu_layers=layers, trial=trial, info=info)
    path = _verdict_file(facts, info)
    known = _read_verdict(path)
    crashed = known is not None and known.cause not in ("", SLOWER)
    free = repack == "auto" and not crashed and not _all_on_gpu(facts, layers)
    # With them first: it reads the file into memory, which llama.cpp maps without them.
    found = {
        one: trial(facts, {**settings, "extra_buffers": one})
        for one in ((True, False) if free else (extra,))
    }
    if free and found[False].speed is not None:
        verdict = _compared(found[True], found[False])
        if verdict is not None:
            extra = verdict.extra
            _keep_verdict(path, facts, verdict)
    return extra, found


def _compared(with_them: Outcome, without: Outcome) -> Verdict | None:
    """Return which of two outcomes to prefer; None where the first tells nothing."""
    if with_them.speed is None:
        failed = with_them.crashed or with_them.error
        return Verdict(extra=False, cause=with_them.cause) if failed else None
    if without.speed is None or with_them.speed.seconds <= _GAIN * without.speed.seconds:
        return Verdict(extra=True)
    return Verdict(extra=False, cause=SLOWER)


def uses_amx(info: str) -> bool:
    """Return whether llama.cpp would use AMX, which is known to crash in some builds."""
    return any(f"AMX_{kind} = 1" in info for kind in ("INT8", "BF16", "TILE"))


def system_info() -> str:
    """Return llama.cpp's description of this processor and of its own build."""
    info: bytes = bind().llama_print_system_info()
    return info.decode("utf-8", "replace")


def run_trial(facts: GGUFFacts, settings: dict[str, Any]) -> Outcome:
    """Load a model in a child process, decode a long and a short batch; return the outcome."""
    if not sys.executable or getattr(sys, "frozen", False):
        return Outcome(ending="no Python interpreter to run it with")
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
        return Outcome(ending=f"a timeout after {seconds:.0f} s")
    return _outcome(done.returncode, done.stdout)


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


def _decide(facts: GGUFFacts, trial: Trial, path: Path) -> bool:
    """Try with extra buffers, then without; cache the verdict."""
    first = trial(facts, {"extra_buffers": True})
    if first.speed is not None:
        _keep_verdict(path, facts, Verdict(extra=True))
        return True
    second = trial(facts, {"extra_buffers": False})
    if second.ending:
        raise UnusableModelError(
            f"llama.cpp can't run {facts.path.name} on this machine: a trial ended with "
            f"{first.cause}, and one without extra buffers with {second.ending}; rebuild "
            f"llama-cpp-python for this processor, or set repack=on or repack=off to skip the trial"
        )
    if second.speed is None:
        # The model itself is unusable: loading it will say why.
        return not first.ending
    if first.crashed or first.error:
        _keep_verdict(path, facts, Verdict(extra=False, cause=first.cause))
    _LOGGER.warning(
        "llama.cpp ended with %s when %s was tried with weights repacked for this processor; it "
        "now runs without repacking (extra buffers off), which is safe but slower. To make it "
        "faster: %s",
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
    # -P: a file in the caller's folder must not shadow a module.
    return [sys.executable, "-P", "-m", "ragweave.llamacpp.trial", job]


def _environment() -> dict[str, str]:
    """Return the child's environment, in which it imports the same ragweave."""
    home = str(Path(ragweave.__file__).parents[1])
    paths = [home, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    path = os.pathsep.join(filter(None, dict.fromkeys(paths)))
    # ggml would start a debugger to show where it aborted.
    return {**os.environ, "PYTHONPATH": path, "GGML_NO_BACKTRACE": "1"}


def _outcome(code: int, output: str) -> Outcome:
    """Interpret a child's exit code and output, whose last line is JSON if it ended normally."""
    if code < 0:
        try:
            return Outcome(ending=signal.Signals(-code).name)
        except ValueError:
            return Outcome(ending=f"signal {-code}")
    lines = output.strip().splitlines()
    result: Any = None
    with suppress(ValueError):
        result = json.loads(lines[-1]) if lines else None
    if code == FAILED and isinstance(result, dict):
        return Outcome(error=str(result.get("error")))
    if code == 0 and isinstance(result, dict):
        return Outcome(speed=Speed(float(result["prefill"]), float(result["generation"])))
    return Outcome(ending=f"exit code {code}")


def _verdict_file(facts: GGUFFacts, info: str) -> Path:
    """Return the file that caches the verdict on this build, processor and kind of model."""
    key = [_build(), info, facts.architecture, facts.quantisation]
    digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:24]
    return cache_folder() / "llamacpp" / f"{digest}.json"


def _build() -> str:
    """Identify the library by its version and its files, which a rebuild changes."""
    module = bind()
    home = Path(str(module.__file__)).parent / "lib"
    files = sorted(home.glob("*ggml-cpu*")) if home.is_dir() else []
    stamps = [f"{one.name}:{one.stat().st_size}:{one.stat().st_mtime_ns}" for one in files]
    return "|".join([str(module.__version__), *stamps])


def _read_verdict(path: Path) -> Verdict | None:
    """Return the cached verdict; None where there is none that can be read."""
    try:
        found = parse_json(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    extra = found.get("extra_buffers") if isinstance(found, dict) else None
    return Verdict(extra, str(found.get("cause", ""))) if isinstance(extra, bool) else None


def _keep_verdict(path: Path, facts: GGUFFacts, verdict: Verdict) -> None:
    """Write a verdict, whole or not at all; where that fails, the next start tries again."""
    content = {
        "extra_buffers": verdict.extra,
        "cause": verdict.cause,
        "architecture": facts.architecture,
        "quantisation": facts.quantisation,
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(dir=path.parent, prefix=".verdict-")
        with os.fdopen(number, "w", encoding="utf-8") as file:
            json.dump(content, file)
        Path(name).replace(path)
    except OSError as error:
        _LOGGER.info("can't cache the verdict on this build of llama.cpp: %s", error)
