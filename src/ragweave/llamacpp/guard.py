"""Whether llama.cpp may repack the weights for this processor: tried in a child process first.

llama.cpp's "extra buffers" repack weights for AMX and the like. Compiled by gcc 11 or 12, the AMX
path ends the process with a segmentation fault at the first batch (llama.cpp#20824). So where AMX
would be used, a child process decodes a long and a short batch first. If it crashes, the model is
loaded without extra buffers: slower, but safe. The verdict is cached, so that later starts need
no trial.

On other processors extra buffers can be the slower choice: `measuring.py` finds out.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import ragweave
from ragweave.errors import UnusableModelError
from ragweave.llamacpp.binding import bind
from ragweave.llamacpp.gguf import GGUFFacts
from ragweave.llamacpp.verdicts import (
    Verdict,
    keep_verdict,
    read_verdict,
    speed_file,
    verdict_file,
)

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

NAN = "the model computed NaN logits"
FAILED = 3
"""Exit code of a trial whose model could not be used, and which reported why."""
_CRASHES = {"SIGSEGV", "SIGILL", "SIGBUS", "SIGFPE", "SIGABRT"}
_SECONDS, _SECONDS_A_GB = 120.0, 60.0


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

    @property
    def lasting(self) -> bool:
        """Whether to remember the failure: a crash or wrong numbers, but not a lack of memory."""
        return self.crashed or self.error == NAN


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
    if all_on_gpu(facts, n_gpu_layers):
        return True
    path = verdict_file(facts, info)
    known = read_verdict(path)
    if known is None and uses_amx(info):
        return _decide(facts, trial or run_trial, path)
    if known is not None and not known.extra:
        return False
    faster = read_verdict(speed_file(facts, info))
    return faster is None or faster.extra


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


def _decide(facts: GGUFFacts, trial: Trial, path: Path) -> bool:
    """Try with extra buffers, then without; cache the verdict."""
    first = trial(facts, {"extra_buffers": True})
    if first.speed is not None:
        keep_verdict(path, facts, Verdict(extra=True))
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
    if first.lasting:
        keep_verdict(path, facts, Verdict(extra=False, cause=first.cause))
    _LOGGER.warning(
        "llama.cpp ended with %s when %s was tried with weights repacked for this processor; it "
        "now runs without repacking (extra buffers off), which is safe but slower. To make it "
        "faster: %s",
        first.cause,
        facts.path.name,
        REBUILD,
    )
    return False


def all_on_gpu(facts: GGUFFacts, n_gpu_layers: int) -> bool:
    """Return whether every layer goes to a GPU, where nothing is repacked."""
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
