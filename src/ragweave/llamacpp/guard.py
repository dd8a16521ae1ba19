"""Whether a model runs on this machine, and with which weights: tried in a child process first.

A build of llama.cpp that does not suit the processor or GPU ends the process at the first batch.
So before the first load on each build, processor, placement and kind of model, a child process
decodes a long and a short batch. The verdict is cached, so that later starts need no trial.

llama.cpp's "extra buffers" repack weights for AMX and the like. Compiled by gcc 11 or 12, the AMX
path crashes (llama.cpp#20824). If the child crashes with extra buffers and does not without them,
the model is loaded without: slower, but safe.

Extra buffers can also be the slower choice: `measuring.py` finds out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from ragweave.errors import UnusableModelError
from ragweave.llamacpp.binding import bind, gpu_names, in_main_memory
from ragweave.llamacpp.child import Ending, is_crash, run_child
from ragweave.llamacpp.gguf import GGUFFacts
from ragweave.llamacpp.library import REBUILD
from ragweave.llamacpp.verdicts import (
    Verdict,
    read_verdict,
    settle_verdict,
    speed_file,
    verdict_file,
)

_LOGGER = logging.getLogger("ragweave.llamacpp")

Repack = Literal["auto", "on", "off"]
"""`auto` tries a model in a child process before its first load; `on` and `off` use extra buffers,
or not, without a trial."""

_FLAGS = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
REBUILD_AMX = (
    f"CC=gcc-13 CXX=g++-13 {REBUILD} (a newer compiler), or the same without AMX: "
    f"CMAKE_ARGS='-DGGML_AMX_TILE=OFF -DGGML_AMX_INT8=OFF -DGGML_AMX_BF16=OFF "
    f'-DCMAKE_C_FLAGS="{_FLAGS}" -DCMAKE_CXX_FLAGS="{_FLAGS}"\''
)
"""How to compile llama-cpp-python so that extra buffers can stay on.

Inferred from llama.cpp#20824, which names gcc 11 and 12; not tried on a processor with AMX.
"""

NAN = "the model computed NaN logits"
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
    began: bool = True
    """Whether the process got as far as loading the model."""

    @property
    def cause(self) -> str:
        """Why the trial failed."""
        return self.ending or self.error

    @property
    def crashed(self) -> bool:
        """Whether the same would happen again; a child killed from outside does not count."""
        return self.began and is_crash(self.ending)

    @property
    def lasting(self) -> bool:
        """Whether to remember the failure: a crash or wrong numbers, but not a lack of memory."""
        return self.crashed or self.error == NAN

    @property
    def short_of_memory(self) -> bool:
        """Whether memory ran out: the system killed the process, or llama.cpp said so."""
        said = self.error.lower()
        return self.ending == "SIGKILL" or "memory" in said or "allocate" in said


Trial = Callable[[GGUFFacts, dict[str, Any]], Outcome]
"""Tries a model in a child process, with the settings of `ragweave.llamacpp.trial.measure`."""


def extra_buffers(
    facts: GGUFFacts,
    repack: Repack,
    settings: Mapping[str, Any] = MappingProxyType({}),
    *,
    trial: Trial | None = None,
    info: str | None = None,
) -> bool:
    """Return whether to load a model with extra buffers.

    Args:
        facts: The model.
        repack: The caller's choice.
        settings: How the model is loaded; `n_gpu_layers` and `flash_attention` decide which of
            llama.cpp's code runs, and the child loads the model with them.
        trial: Tries the model in a child process; None: `run_trial`.
        info: llama.cpp's description of this system; None asks llama.cpp.

    Raises:
        UnusableModelError: The child crashes both with extra buffers and without them, or is
            killed.
    """
    if repack != "auto":
        return repack == "on"
    info = system_info() if info is None else info
    path = verdict_path(facts, info, settings)
    known = read_verdict(path)
    if known is None:
        one = _OneTrial(facts, settings, trial or run_trial, uses_amx(info))
        extra = _decide(one, path)
        if not extra:
            return False
    elif not known.extra:
        return False
    if all_on_gpu(facts, settings.get("n_gpu_layers", -1)):
        return True
    faster = read_verdict(speed_file(facts, info))
    return faster is None or faster.extra


def verdict_path(facts: GGUFFacts, info: str, settings: Mapping[str, Any]) -> Path:
    """Return the file that caches the verdict on a model that is loaded with these settings."""
    layers = settings.get("n_gpu_layers", -1)
    place = "gpu" if all_on_gpu(facts, layers) else "cpu" if in_main_memory(layers) else "both"
    gpus = () if place == "cpu" else gpu_names()
    flash = settings.get("flash_attention")
    return verdict_file(facts, info, place, flash_attention=flash, gpus=gpus)


def uses_amx(info: str) -> bool:
    """Return whether llama.cpp would use AMX, which is known to crash in some builds."""
    return any(f"AMX_{kind} = 1" in info for kind in ("INT8", "BF16", "TILE"))


def system_info() -> str:
    """Return llama.cpp's description of this processor and of its own build."""
    info: bytes = bind().llama_print_system_info()
    return info.decode("utf-8", "replace")


def run_trial(facts: GGUFFacts, settings: dict[str, Any]) -> Outcome:
    """Load a model in a child process, decode a long and a short batch; return the outcome."""
    seconds = _SECONDS + _SECONDS_A_GB * facts.size / 1e9
    job = {"path": str(facts.path), **settings}
    return _outcome(run_child("ragweave.llamacpp.trial", job, seconds))


@dataclass(frozen=True)
class _OneTrial:
    """What is to be tried."""

    facts: GGUFFacts
    settings: Mapping[str, Any]
    trial: Trial
    amx: bool

    def __call__(self, *, extra: bool) -> Outcome:
        _LOGGER.info("trying %s in a child process", self.facts.path.name)
        loads = {name: self.settings.get(name) for name in ("n_gpu_layers", "flash_attention")}
        given = {name: value for name, value in loads.items() if value is not None}
        return self.trial(self.facts, {**given, "extra_buffers": extra})


def _decide(one: _OneTrial, path: Path) -> bool:
    """Try with extra buffers, then without; cache the verdict."""
    first = one(extra=True)
    if first.speed is not None:
        settle_verdict(path, one.facts, Verdict(extra=True))
        return True
    if not first.began:
        _tell_untried(one, first.cause)
        return not one.amx
    second = one(extra=False)
    if second.ending and second.began:
        raise UnusableModelError(_refusal(one, first, second))
    if second.speed is None:
        # The model itself is unusable: loading it will say why.
        return not first.ending
    if first.lasting:
        settle_verdict(path, one.facts, Verdict(extra=False, cause=first.cause))
    _LOGGER.warning(
        "%s failed in a trial with weights repacked for this processor (%s); it now runs without "
        "repacking (extra buffers off), which is safe but slower; %s",
        one.facts.path.name,
        first.cause,
        _advice(one, first),
    )
    return False


def _tell_untried(one: _OneTrial, cause: str) -> None:
    name = one.facts.path.name
    if not one.amx:
        _LOGGER.info("%s could not be tried: %s", name, cause)
        return
    _LOGGER.warning(
        "%s could not be tried in a child process (%s); it now runs without repacking (extra "
        "buffers off), which is safe but slower, since some builds of llama.cpp crash on "
        "processors with AMX; set repack=on if yours does not",
        name,
        cause,
    )


def _advice(one: _OneTrial, failed: Outcome) -> str:
    """Return what to do about a trial with repacked weights that failed."""
    if failed.lasting:
        return f"to make it faster: {REBUILD_AMX if one.amx else REBUILD}"
    if failed.short_of_memory:
        return "repacked weights need more memory than there seems to be"
    return "the next load tries again"


def _refusal(one: _OneTrial, first: Outcome, second: Outcome) -> str:
    name = one.facts.path.name
    ended = f"ended with {first.cause}, and one without extra buffers with {second.ending}"
    skip = "set repack=on or repack=off to skip the trial"
    if second.crashed:
        on_gpu = not in_main_memory(one.settings.get("n_gpu_layers", -1))
        where = "GPU, set n_gpu_layers=0 to do without it" if on_gpu else f"processor ({REBUILD})"
        return (
            f"llama.cpp can't run {name} on this machine: a trial {ended}; rebuild "
            f"llama-cpp-python for this {where}, or {skip}"
        )
    return (
        f"{name} could not be tried: a child process that loads it {ended}, as where it is killed "
        "or memory is short: free memory, lower the n_ctx of other models that are loaded, use a "
        f"smaller file, or {skip}"
    )


def all_on_gpu(facts: GGUFFacts, n_gpu_layers: int) -> bool:
    """Return whether every layer goes to a GPU, where nothing is repacked."""
    if not bind().llama_supports_gpu_offload():
        return False
    return n_gpu_layers < 0 or n_gpu_layers > (facts.layers or n_gpu_layers)


def _outcome(ending: Ending) -> Outcome:
    """Read what a trial reported."""
    if ending.result is None:
        return Outcome(ending=ending.failure, began=ending.began)
    if ending.code:
        return Outcome(error=str(ending.result.get("error")), began=ending.began)
    speed = Speed(float(ending.result["prefill"]), float(ending.result["generation"]))
    return Outcome(speed=speed)
