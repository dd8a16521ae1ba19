"""How uncertain a model was of its own words: from their log-probabilities, or from several samples.

Log-probabilities are read from `response_metadata["logprobs"]` in OpenAI's form, which OpenAI-compatible
servers and llama.cpp give: `{"content": [{"token": …, "logprob": …, "bytes": […], "top_logprobs": […]}, …]}`.

Sources: TARG (arXiv 2511.09803, version 1), section 3.1: mean token entropy (eq. 1), the gap between
the two likeliest tokens (eq. 2), disagreement of a few samples (eq. 3); arXiv 2501.12835, among the
estimators that it compares: mean and maximum over tokens, lexical similarity of samples.
"""

from __future__ import annotations

import codecs
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from langchain_core.messages import BaseMessage

from ragweave.errors import UsageError
from ragweave.tools.text.words import words

Gate = Literal["mean", "least", "entropy", "margin", "variance", "dissimilarity"]
"""What is measured; each measure rises with uncertainty.

* `mean`: the mean surprise of the tokens, in nats (the log of perplexity).
* `least`: the surprise of the least likely token, in nats.
* `entropy`: the mean entropy over the reported candidates of each place, in nats.
* `margin`: the mean of the second candidate's probability over the first's, 0 to 1.
* `variance`: of several samples, the mean share that does not have a place's commonest word, 0 to 1.
* `dissimilarity`: one less the mean similarity of two samples (F of their longest common subsequence of
  words, as ROUGE-L has it), 0 to 1.
"""

SAMPLED: frozenset[Gate] = frozenset({"variance", "dissimilarity"})
"""What is measured on several samples, for which a model needs no log-probabilities."""

THRESHOLDS: Mapping[Gate, float] = {
    "mean": 0.5,
    "least": 1.6,
    "entropy": 0.8,
    "margin": 0.35,
    "variance": 0.4,
    "dissimilarity": 0.5,
}
"""Where nothing was chosen on labelled questions. TARG's tables 1 and 2 show .80 to .95 for entropy, .15 to .70
for margin and .40 to .75 for variance, by model and data set; the others are round numbers of ours."""

CANDIDATES = 5
"""Candidates of each place that `entropy` and `margin` ask for: as many as OpenAI's form gives."""


class Token(NamedTuple):
    """A token's place in the reply's text, `text[start:end]`, and its probability."""

    start: int
    end: int
    probability: float

    def touches(self, start: int, end: int) -> bool:
        """Say whether the token shares a character with `text[start:end]`."""
        return self.start < end and self.end > start


def gate_settings(gate: Gate) -> dict[str, Any]:
    """Return the settings of a call whose uncertainty is to be measured."""
    if gate in SAMPLED:
        return {}
    return {"logprobs": True, **({"top_logprobs": CANDIDATES} if gate in ("entropy", "margin") else {})}


def tokens_of(message: BaseMessage, text: str) -> list[Token]:
    """Return the tokens of `text`, which is the message's text or a piece of it, in order.

    Raises:
        UsageError: The reply reports no log-probabilities.
    """
    places = _places(message)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a character may take several tokens
    pieces = [decoder.decode(bytes(one["bytes"])) if one.get("bytes") else one["token"] for one in places]
    said = "".join(pieces).replace("’", "'")
    begin = said.find(text)
    start = -(begin if begin >= 0 else max(said.find(text[:40]), 0))
    tokens = []
    for place, piece in zip(places, pieces, strict=True):
        end = max(start + len(piece), start + 1)
        if end > 0 and start < len(text):
            tokens.append(Token(max(start, 0), min(end, len(text)), math.exp(_log(place["logprob"]))))
        start += len(piece)
    return tokens


def uncertainty(message: BaseMessage, gate: Gate) -> float | None:
    """Return how uncertain a reply is that was asked for with `gate_settings`; None if it has no token.

    Raises:
        UsageError: The reply reports no log-probabilities, or no candidates and the gate needs them.
    """
    places = _places(message)
    if not places:
        return None
    surprises = [-_log(one["logprob"]) for one in places]
    if gate == "least":
        return max(surprises)
    if gate == "mean":
        return sum(surprises) / len(surprises)
    candidates = [[_log(one["logprob"]) for one in place.get("top_logprobs") or ()] for place in places]
    measured = [_measured(sorted(one, reverse=True), gate) for one in candidates if one]
    if not measured:
        raise UsageError(f"gate={gate} needs the candidates of each token, and the server reports none: use gate=mean")
    return sum(measured) / len(measured)


def _places(message: BaseMessage) -> Sequence[Mapping[str, Any]]:
    logprobs = message.response_metadata.get("logprobs")
    places = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if places is None and str(message.text).strip():
        raise UsageError(
            "this needs the probability of each token, and the model reports none: use openai:NAME (with any "
            "compatible server) or llamacpp:PATH"
        )
    return places or ()


def _log(value: float) -> float:
    return -100.0 if math.isnan(value) else min(max(value, -100.0), 0.0)


def _measured(candidates: Sequence[float], gate: Gate) -> float:
    """Measure a place by its candidates, the likeliest first; one alone has a rival of the probability it leaves."""
    weights = [math.exp(one) for one in candidates]
    if len(weights) == 1 and weights[0] < 1:
        weights.append(min(weights[0], 1 - weights[0]))
    if gate == "margin":
        return weights[1] / weights[0] if len(weights) > 1 else 0.0
    return -sum(one / sum(weights) * math.log(one / sum(weights)) for one in weights)


def disagreement(samples: Sequence[str], gate: Gate) -> float | None:
    """Return how much two or more replies to one prompt differ, word by word; None if none says a word.

    Args:
        samples: The replies' texts.
        gate: `variance` or `dissimilarity`.
    """
    said = [words(one) for one in samples]
    if not any(said):
        return None
    if gate == "variance":
        places = list(itertools.zip_longest(*said))  # a sample that has ended says None
        return 1 - sum(max(Counter(place).values()) for place in places) / len(places) / len(said)
    alike = [_similarity(one, two) for one, two in itertools.combinations(said, 2)]
    return 1 - sum(alike) / len(alike)


def _similarity(one: Sequence[str], two: Sequence[str]) -> float:
    """Return the F measure of the longest common subsequence; two silent samples are alike."""
    if not one and not two:
        return 1.0
    row = [0] * (len(two) + 1)
    for word in one:
        before, row = row, [0]
        for at, other in enumerate(two):
            row.append(before[at] + 1 if word == other else max(before[at + 1], row[at]))
    return 2 * row[-1] / (len(one) + len(two))
