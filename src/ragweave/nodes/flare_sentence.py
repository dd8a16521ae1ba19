"""The first doubtful sentence of a text, and the query that it makes (FLARE)."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from ragweave.tools.confidence import Token
from ragweave.tools.text.sentences import Sentence, split_sentences

_CONCLUSION = re.compile(r"\b(?:so,? )?the (?:final )?answer is\b:?\s*", re.IGNORECASE)


def first_doubtful(
    text: str, tokens: Sequence[Token], threshold: float, *, begin: int = 0, trusted: int = 0
) -> Sentence | None:
    """Return the first sentence with a token less probable than `threshold`, or None.

    Source: Jiang et al. 2023 (Active Retrieval Augmented Generation), section 3.2.1.

    Args:
        text: What the model wrote.
        tokens: Its tokens with their probabilities; offsets are those of `text`.
        threshold: θ, a probability.
        begin: Character at which the part to look at begins.
        trusted: How many sentences at its start are taken as they are.
    """
    unsure = [token for token in tokens if token.probability < threshold]
    for one in split_sentences(text[begin:])[trusted:]:
        sentence = Sentence(one.text, begin + one.start, begin + one.end)
        if _touched(unsure, sentence.start, sentence.end):
            return sentence
    return None


def masked(sentence: Sentence, tokens: Sequence[Token], below: float) -> str:
    """Return the sentence as a query, without the words that hold a token less probable than β.

    The paper masks tokens; here the rest of a word goes with its masked token, since pieces of
    words find nothing. "So the answer is" goes too. What is left may be "".

    Source: Jiang et al. 2023 (Active Retrieval Augmented Generation), section 3.2.2.
    """
    unsure = [token for token in tokens if token.probability < below]
    kept = [
        word.group()
        for word in re.finditer(r"\S+", sentence.text)
        if not _touched(unsure, sentence.start + word.start(), sentence.start + word.end())
    ]
    query = _CONCLUSION.sub("", " ".join(kept))
    return query if re.search(r"\w", query) else ""


def _touched(tokens: Sequence[Token], start: int, end: int) -> bool:
    """Say whether one of `tokens`, in reading order, has a part in the characters given."""
    first = bisect_left(tokens, start, key=lambda token: token.end)
    behind = bisect_left(tokens, end, key=lambda token: token.start)
    return any(token.touches(start, end) for token in tokens[first:behind])
