"""Answer normalisation, word tokens, and estimated token counts for models that report none."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Sequence

from langchain_core.messages import BaseMessage

from ragweave.tools.text.letters import LETTERS

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


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation + "“”‘’–—…«»")
_WORD = re.compile(rf"{LETTERS}(?:['’]{LETTERS})*")


def normalize_answer(text: str) -> str:
    """Lower-case `text`, drop punctuation and English articles, fold white space.

    Source: the SQuAD evaluation rule (Rajpurkar et al. 2016), which Liu et al. (section 4) use
    for votes and exact match. Typographic quotes and dashes count as punctuation too.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def words(text: str) -> list[str]:
    """Return the lower-cased words of `text` in order (letters with their marks, digits, inner apostrophes)."""
    return _WORD.findall(text.lower())
