"""Estimated token counts, for models that report none."""

from __future__ import annotations

import math
from collections.abc import Sequence

from langchain_core.messages import BaseMessage

_PER_MESSAGE = 3


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of `text`: one for four ASCII characters, one for two others.

    A rule of thumb for byte-pair vocabularies, within about a fifth for European text.
    """
    plain = len(text.encode("ascii", "ignore"))
    return math.ceil(plain / 4 + (len(text) - plain) / 2)


def estimate_message_tokens(messages: Sequence[BaseMessage]) -> int:
    """Estimate the tokens of a prompt, with three a message for its role and marks."""
    return sum(_PER_MESSAGE + estimate_tokens(message.text) for message in messages)
