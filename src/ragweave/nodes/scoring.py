"""What a scorer's calls cost: it reads log-probabilities, and writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ragweave.state import Tokens, Usage, no_usage, running
from ragweave.tools.scorers.specs import Pairs
from ragweave.tools.text.normalize import estimate_tokens


def scoring_usage(role: str, calls: Sequence[Pairs]) -> Usage:
    """Return the usage of a scorer's calls, estimated: scorers report no tokens.

    Args:
        role: The role that the scorer plays.
        calls: The prompts and continuations of each call.
    """
    if not calls:
        return no_usage()
    read = sum(estimate_tokens(prompt + text) for pairs in calls for prompt, text in pairs)
    tokens: Tokens = {"calls": len(calls), "input_tokens": read, "output_tokens": 0}
    tables = {"by_role": {role: tokens}, "by_node": {running()[1]: tokens}}
    return cast("Usage", {**no_usage(), **tokens, "estimated": True, **tables})
