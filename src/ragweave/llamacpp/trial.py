"""A child process that loads a model and decodes with it: if that crashes, only the child dies.

Run by `ragweave.llamacpp.guard` and `ragweave.llamacpp.measuring` with one JSON argument: `path`,
`extra_buffers`, and `prompt` and `reply`, the numbers of tokens to read and to generate. Its last
line of output is JSON: tokens per second, or the error.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

from ragweave.errors import ModelError, RagweaveError
from ragweave.llamacpp.binding import load
from ragweave.llamacpp.child import BEGAN, FAILED, leave_no_core
from ragweave.llamacpp.core import Core, CoreSettings, Run
from ragweave.llamacpp.gguf import read_gguf
from ragweave.llamacpp.guard import NAN

_TEXT = "The measure keeps sentences that help the model to write the answer. "


def main(arguments: list[str]) -> int:
    """Run the trial that the argument describes; return the process's exit code."""
    leave_no_core()
    job = json.loads(arguments[0])
    try:
        load()  # it may load in the parent alone, whose search paths may be others
        print(BEGAN, flush=True)  # noqa: T201
        speed = measure(**job)
    except RagweaveError as error:
        print(json.dumps({"error": str(error)}))  # noqa: T201
        return FAILED
    print(json.dumps(speed))  # noqa: T201
    return 0


def measure(
    path: str, *, extra_buffers: bool, prompt: int = 128, reply: int = 4, **settings: Any
) -> dict[str, float]:
    """Read `prompt` tokens in one batch, generate `reply` tokens one by one, and time both.

    Args:
        path: The GGUF file.
        extra_buffers: Whether weights may be repacked.
        prompt: Tokens of the long batch.
        reply: Number of short batches.
        settings: Further settings of the core, such as `n_gpu_layers` and `n_threads`.

    Returns:
        Tokens per second of `prefill` and `generation`.

    Raises:
        ModelError: The model can't be loaded, or computes NaN.
    """
    shape = {"n_ctx": prompt + reply + 32, "n_batch": max(prompt, 32), "n_parallel": 1}
    core = Core(read_gguf(path), CoreSettings(**{**settings, **shape}), extra_buffers=extra_buffers)
    sample = core.vocabulary.encode(_TEXT) or [0]
    tokens = (sample * (prompt // len(sample) + 1))[:prompt]
    began = time.perf_counter()
    token = _next(core, Run(0, 0, tokens, prompt - 1), prompt - 1)
    read = time.perf_counter()
    for position in range(prompt, prompt + reply):
        token = _next(core, Run(0, position, [token], position), 0)
    written = time.perf_counter()
    core.close()
    return {"prefill": prompt / (read - began), "generation": reply / (written - read)}


def _next(core: Core, run: Run, row: int) -> int:
    """Decode a batch and return the likeliest next token."""
    code = core.decode([run])
    if code:
        raise ModelError(f"llama_decode returned {code}: {core.failure()}")
    logits = core.logits(row)
    if not np.isfinite(logits.max()):
        raise ModelError(NAN)
    return int(logits.argmax())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
