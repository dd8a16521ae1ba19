"""Scorers by spec string, the same for `eval`, `study`, `label` and a run's settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from ragweave.errors import ModelError, UsageError
from ragweave.tools.models.specs import read_settings
from ragweave.tools.scorers.protocol import LogprobScorer

KINDS = "hf:NAME (or a folder), llamacpp:FILE.gguf, openai:NAME?base_url=http://host:8000/v1"
"""The specs, for an error's text and the command line's help."""

_SERVER = ("openai", "server")
"""`server:` is the older name of `openai:`; run directories hold it."""


class _Spec(NamedTuple):
    kind: str
    name: str
    query: str


def scorer_of_spec(spec: str) -> LogprobScorer:
    """Return a scorer for a spec string; its model loads at the first call.

    * `hf:NAME`: a transformers model, causal or sequence-to-sequence, by folder, or by the hub
      name of one that is on this machine (`?batch_size=16&max_tokens=1024&device=cuda`).
    * `llamacpp:FILE.gguf`: a GGUF file (`?n_ctx=4096&n_gpu_layers=-1`).
    * `openai:NAME`: a completion server that echoes log-probabilities, such as vLLM
      (`?base_url=http://host:8000/v1`); `server:NAME` means the same.

    Raises:
        UsageError: The spec names no such scorer, a setting is not understood, or a transformers
            model is not on this machine.
        MissingExtraError: Its packages are not installed.
        ModelError: A GGUF file is missing or damaged.
    """
    kind, name, query = _parsed(spec)
    try:
        return _made(kind, name, read_settings(query))
    except TypeError as error:
        raise UsageError(f"scorer '{kind}:{name}': settings not understood: {error}") from error


def absolute_scorer(spec: str) -> str:
    """Return a spec that means the same in any working directory; "" stays "".

    Raises:
        UsageError: It names no known kind of scorer.
    """
    if not spec:
        return ""
    kind, name, query = _parsed(spec)
    if kind not in _SERVER and Path(name).exists():
        name = str(Path(name).resolve())
    return f"{kind}:{name}{'?' if query else ''}{query}"


def _parsed(spec: str) -> _Spec:
    head, _, query = spec.strip().partition("?")
    kind, _, name = head.partition(":")
    if kind not in ("hf", "llamacpp", *_SERVER) or not name:
        raise UsageError(f"unknown scorer {head!r}: use {KINDS}")  # a key may stand behind "?"
    return _Spec(kind, name, query)


def _made(kind: str, name: str, settings: dict[str, Any]) -> LogprobScorer:
    if kind in _SERVER:
        from ragweave.tools.scorers.server import ServerScorer

        return ServerScorer(name, **settings)
    if kind == "llamacpp":
        from ragweave.tools.scorers.llamacpp import LlamaCppScorer

        return LlamaCppScorer(Path(name), **settings)
    from ragweave.tools.scorers.huggingface import HuggingFaceScorer
    from ragweave.tools.scorers.local import find_base_model

    try:
        folder = find_base_model(name)
    except ModelError as error:
        raise UsageError(f"scorer 'hf:{name}': {error}") from error
    return HuggingFaceScorer(folder, **settings)
