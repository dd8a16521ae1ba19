"""Log-probabilities of a given text behind a prompt, which CXMI needs (FILCO, section 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from ragweave.errors import UsageError
from ragweave.tools.models.roles import unbound
from ragweave.tools.models.specs import chat_model, checked, read_settings

Pairs: TypeAlias = Sequence[tuple[str, str]]
"""Prompts and their continuations."""


@runtime_checkable
class LogprobScorer(Protocol):
    """Scores continuations. It must be safe under threads.

    If its model is causal, it may say so by an attribute `causal` that is True: CXMI then leads over to the answer.
    """

    def score(self, pairs: Pairs) -> list[float]:
        """Return the natural-log probability of each continuation given its prompt, at most 0, in nats.

        Each is a sum over the continuation's tokens and the end token, as in FILCO's code; other pairs do not change it.
        """
        ...


def scorer_of(spec: Any) -> LogprobScorer:
    """Return a scorer: the object itself, or for a spec a model that scores; it loads at the first call.

    * `llamacpp:FILE` or `smollm2`: a GGUF file, with the settings that it has as a chat model.
    * `hf:NAME`: a transformers model on this machine, causal or sequence-to-sequence, by folder or hub name
      (`?batch_size=16&device=cuda&dtype=float32`).

    Raises:
        UsageError: The spec names no such scorer, or a setting is not understood.
        MissingExtraError: Its packages are not installed.
        ModelError: The model is not on this machine, or damaged.
    """
    if isinstance(spec, str) and spec.startswith("hf:"):
        from ragweave.tools.models.huggingface import HuggingFaceScorer

        name, _, query = spec.removeprefix("hf:").partition("?")
        return checked(f"scorer 'hf:{name}'", {"model": name, **read_settings(query)}, HuggingFaceScorer)
    made = unbound(chat_model(spec) if isinstance(spec, str) else spec)
    if not isinstance(made, LogprobScorer):
        raise UsageError(
            f"{type(made).__name__} can't score texts: use llamacpp:FILE, smollm2 or hf:NAME as the scorer"
        )
    return made
