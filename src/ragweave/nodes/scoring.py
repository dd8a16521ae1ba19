"""What it costs to have texts scored: log-probabilities of a continuation, read and not written."""

from __future__ import annotations

from collections.abc import Sequence

from ragweave.state import Tokens, Usage
from ragweave.tools.text.normalize import estimate_tokens


def scoring_usage(role: str, node: str, pairs: Sequence[tuple[str, str]]) -> Usage:
    """Return what one call of a scorer cost, its tokens estimated: scorers report none.

    Args:
        role: Who scored: the role that it plays, or `SCORER_ROLE`.
        node: Name of the node.
        pairs: The prompts and their continuations.
    """
    tokens: Tokens = {
        "calls": 1,
        "input_tokens": sum(estimate_tokens(prompt + text) for prompt, text in pairs),
        "output_tokens": 0,
    }
    return {
        "calls": tokens["calls"],
        "input_tokens": tokens["input_tokens"],
        "output_tokens": tokens["output_tokens"],
        "estimated": True,
        "retrievals": 0,
        "by_role": {role: tokens},
        "by_node": {node: tokens},
    }
