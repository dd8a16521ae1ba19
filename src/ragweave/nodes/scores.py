"""Which scorer a chat model brings along, where it brings one."""

from __future__ import annotations

import sys

from ragweave.tools.models import ChatModel
from ragweave.tools.models.bindings import unbound
from ragweave.tools.scorers.protocol import LogprobScorer


def scorer_of(model: ChatModel, *, local: bool = True) -> LogprobScorer | None:
    """Return what scores continuations with the weights of `model`, or None.

    Scorers take plain text: they know no chat template.

    Args:
        model: A chat model; one that has a `score` method is its own scorer.
        local: Whether a local GGUF model shares its weights with a scorer.
    """
    target = unbound(model)
    if isinstance(target, LogprobScorer):
        return target
    if not local or "ragweave.tools.models.llamacpp" not in sys.modules:
        return None
    from ragweave.tools.models.llamacpp import LlamaCppChat
    from ragweave.tools.scorers.llamacpp import LlamaCppScorer

    return LlamaCppScorer(target) if isinstance(target, LlamaCppChat) else None
