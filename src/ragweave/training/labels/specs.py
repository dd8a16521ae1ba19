"""What is written down of a model: its spec without keys, and scorers by spec."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

from ragweave.errors import ModelError, UsageError
from ragweave.tools.models.specs import read_settings
from ragweave.tools.scorers.protocol import LogprobScorer

_SECRET = re.compile(r"key|token$|secret|password|passwd|credential|authorization", re.IGNORECASE)
_COUNTS = re.compile(r"(?:max|min|n)_|_(?:count|limit)$|tokens$", re.IGNORECASE)


def redacted(spec: str) -> str:
    """Return a spec without what must not be written down: keys, tokens, passwords in addresses.

    A setting that names a secret loses its value; an address loses its user and password, and its
    own settings are treated alike.
    """
    head, mark, query = spec.partition("?")
    if not mark:
        return _address(head) if "://" in head else head
    kept = [
        f"{name}={'***' if _is_secret(name) else _value(value)}"
        for name, value in parse_qsl(query, keep_blank_values=True)
    ]
    return f"{_address(head) if '://' in head else head}?{'&'.join(kept)}"


def _is_secret(name: str) -> bool:
    return bool(_SECRET.search(name)) and not _COUNTS.search(name)


def _value(value: str) -> str:
    shown = _address(value) if "://" in value else value
    return quote(shown, safe=":/*@,;[]{}\"'+.~-_ ")


def _address(text: str) -> str:
    parts = urlsplit(text)
    host = parts.netloc.rpartition("@")[2]
    query = "&".join(
        f"{name}={'***' if _is_secret(name) else value}"
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    )
    return urlunsplit((parts.scheme, host, parts.path, query, parts.fragment))


def scorer_of_spec(spec: str) -> LogprobScorer:
    """Return a scorer for a spec string.

    * `hf:PATH` — a transformers model, causal or sequence-to-sequence, by folder, or by the hub name of
      one that is on this machine
      (`?batch_size=16&max_tokens=1024&device=cuda`).
    * `llamacpp:PATH` — a GGUF file (`?n_ctx=4096&n_gpu_layers=-1`).
    * `openai:NAME` — a completion server that echoes log-probabilities
      (`?base_url=http://host:8000/v1`).

    Raises:
        UsageError: The spec names no such scorer, or a setting is not understood.
        MissingExtraError: Its packages are not installed.
        ModelError: The model's file is missing or damaged.
    """
    head, _, query = spec.strip().partition("?")
    kind, _, name = head.partition(":")
    settings = read_settings(query)
    if kind not in ("hf", "llamacpp", "openai") or not name:
        raise UsageError(
            f"unknown scorer {redacted(spec)!r}: use 'hf:FOLDER', 'llamacpp:FILE.gguf' or "
            "'openai:NAME?base_url=…'"
        )
    try:
        return _scorer(kind, name, settings)
    except TypeError as fault:
        raise UsageError(f"scorer '{kind}:{name}': settings not understood: {fault}") from fault


def _scorer(kind: str, name: str, settings: dict[str, Any]) -> LogprobScorer:
    if kind == "hf":
        from ragweave.tools.parts.bases import find_base
        from ragweave.tools.scorers import HuggingFaceScorer

        try:
            folder = find_base(name)
        except ModelError as fault:
            raise UsageError(f"scorer 'hf:{name}': {fault}") from fault
        return HuggingFaceScorer(folder, **settings)
    if kind == "openai":
        from ragweave.tools.scorers import ServerScorer

        return ServerScorer(name, **settings)
    from ragweave.tools.scorers.llamacpp import LlamaCppScorer

    return LlamaCppScorer(Path(name), **settings)
