"""Whether extra buffers make a model faster here: tried with them and without, in turns.

llama.cpp's layout for the processor reads prompts of some models faster and of others more slowly
(one of 1.5B weights in Q4_K on a processor with AVX2 alone). The clearly faster choice is cached for
the model, and `auto` uses it from then on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ragweave.llamacpp.gguf import GGUFFacts
from ragweave.llamacpp.guard import (
    Outcome,
    Repack,
    Trial,
    all_on_gpu,
    extra_buffers,
    run_trial,
    system_info,
    verdict_path,
)
from ragweave.llamacpp.verdicts import (
    SLOWER,
    Verdict,
    keep_verdict,
    read_verdict,
    speed_file,
)

_TURNS, _ENOUGH = 3, 60.0
"""Most turns, and seconds after which two turns must do."""
_GAIN = 1.05
"""By how much most turns of the one choice must be faster than every turn of the other."""


@dataclass(frozen=True)
class Measurement:
    """What was measured of a model."""

    extra: bool
    """Whether a load with the same `repack` uses extra buffers."""
    outcomes: Mapping[bool, Outcome]
    """The best outcome with extra buffers and without them, or of the one that was tried."""
    verdict: Verdict | None = None
    """What is known, now or from before; None where the two differ too little to tell."""
    kept: bool = False
    """Whether the verdict could be cached."""


def measure_buffers(
    facts: GGUFFacts,
    repack: Repack,
    settings: dict[str, Any],
    *,
    trial: Trial | None = None,
    info: str | None = None,
) -> Measurement:
    """Measure a model in child processes; cache the clearly faster choice.

    Args:
        facts: The model.
        repack: The caller's choice; unless it is `auto`, only that choice is tried, and nothing is
            cached.
        settings: Settings of `ragweave.llamacpp.trial.measure`, such as `prompt` and `reply`.
        trial: Tries the model in a child process; None: `run_trial`.
        info: llama.cpp's description of this system; None asks llama.cpp.

    Raises:
        UnusableModelError: The child crashes both with extra buffers and without them.
    """
    info, trial = system_info() if info is None else info, trial or run_trial
    extra = extra_buffers(facts, repack, settings, trial=trial, info=info)

    def tried(choice: bool) -> Outcome:
        return trial(facts, {**settings, "extra_buffers": choice})

    if repack != "auto" or all_on_gpu(facts, settings.get("n_gpu_layers", -1)):
        return Measurement(extra, {extra: tried(extra)})
    path = verdict_path(facts, info, settings)
    known = read_verdict(path)
    if known is not None and not known.extra:
        return Measurement(extra, {extra: tried(extra)}, known, kept=True)
    turns = _in_turns(tried)
    best = {choice: min(found, key=_seconds) for choice, found in turns.items()}
    verdict = _compared(turns[True], turns[False])
    if verdict is None:
        return Measurement(extra, best)
    of_speed = verdict.cause in ("", SLOWER)
    kept = keep_verdict(speed_file(facts, info) if of_speed else path, facts, verdict)
    return Measurement(verdict.extra if kept else extra, best, verdict, kept=kept)


def _in_turns(tried: Callable[[bool], Outcome]) -> dict[bool, list[Outcome]]:
    """Try both choices in turns, so that a slower spell of the machine meets both.

    With extra buffers first: that reads the file into memory, which is mapped without them.
    """
    began = time.monotonic()
    found: dict[bool, list[Outcome]] = {True: [], False: []}
    for turn in range(_TURNS):
        for choice in (True, False) if turn % 2 == 0 else (False, True):
            found[choice].append(tried(choice))
        failed = any(outcomes[-1].speed is None for outcomes in found.values())
        if failed or (turn and time.monotonic() - began > _ENOUGH):
            break
    return found


def _compared(on: list[Outcome], off: list[Outcome]) -> Verdict | None:
    """Return which choice to prefer; None where that is not clear."""
    failed = next((one for one in on if one.speed is None), None)
    if failed is not None:
        usable = failed.lasting and off[-1].speed is not None
        return Verdict(extra=False, cause=failed.cause) if usable else None
    if any(one.speed is None for one in off):
        return None
    if _clearly_faster(off, on):
        return Verdict(extra=False, cause=SLOWER)
    return Verdict(extra=True) if _clearly_faster(on, off) else None


def _clearly_faster(one: list[Outcome], other: list[Outcome]) -> bool:
    """Return whether most turns of the one beat all of the other; of two turns, both must."""
    return sorted(map(_seconds, one))[len(one) // 2] * _GAIN < min(map(_seconds, other))


def _seconds(outcome: Outcome) -> float:
    return float("inf") if outcome.speed is None else outcome.speed.seconds
