"""The scorer of a run by spec: what CXMI measures sentences with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ragweave.errors import UsageError
from ragweave.tools.models.specs import read_settings
from ragweave.tools.scorers import HuggingFaceScorer, LogprobScorer, ServerScorer

KINDS = "hf:NAME (or a folder), llamacpp:PATH, server:NAME?base_url=http://host/v1"


def settled_scorer(spec: str) -> str:
    """Return a scorer's spec that means the same in any working directory; "" stays "".

    Raises:
        UsageError: It names no known kind of scorer.
    """
    if not spec:
        return ""
    kind, _, rest = spec.strip().partition(":")
    name, mark, settings = rest.partition("?")
    if kind not in ("hf", "llamacpp", "server") or not name:
        raise UsageError(f"--scorer takes {KINDS}, not {spec!r}")
    if kind != "server" and Path(name).exists():
        name = str(Path(name).resolve())
    return f"{kind}:{name}{mark}{settings}"


def open_scorer(spec: str) -> LogprobScorer | None:
    """Return the scorer that a spec names, tried once; None for "".

    Raises:
        UsageError: A setting is not understood.
        MissingExtraError: Its packages are not installed.
        ModelError: The model cannot be had, or its server gives no log-probabilities.
    """
    if not spec:
        return None
    kind, _, rest = spec.partition(":")
    name, _, query = rest.partition("?")
    try:
        scorer = _made(kind, name, read_settings(query))
    except TypeError as fault:
        raise UsageError(f"--scorer {kind}:{name}: settings not understood: {fault}") from fault
    scorer.score([("A bridge is a", " bridge.")])  # better now than at every question
    return scorer


def scores_itself(model: str) -> bool:
    """Say whether a chat model of this spec brings its scorer along."""
    return model.strip().startswith("llamacpp:")


def _made(kind: str, name: str, settings: dict[str, Any]) -> LogprobScorer:
    if kind == "hf":
        from ragweave.tools.parts.bases import find_base

        return HuggingFaceScorer(find_base(name), **settings)
    if kind == "server":
        return ServerScorer(name, **settings)
    from ragweave.tools.scorers.llamacpp import LlamaCppScorer

    return LlamaCppScorer(name, **settings)
