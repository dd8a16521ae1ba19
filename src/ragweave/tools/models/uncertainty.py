"""How uncertain a model was of its own words: from their log-probabilities, or from several samples.

Sources: TARG (arXiv 2511.09803, version 1), section 3.1, over a short prefix: mean token entropy
(eq. 1), the gap between the two likeliest tokens (eq. 2), disagreement of a few samples (eq. 3);
arXiv 2501.12835, among the estimators that it compares: mean and maximum over tokens, perplexity,
and lexical similarity of samples. Every measure rises with uncertainty.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from langchain_core.messages import BaseMessage

from ragweave.errors import ModelError
from ragweave.tools.text.normalize import words

Gate = Literal["mean", "least", "entropy", "margin", "variance", "dissimilarity"]
"""What is measured.

* `mean`: the mean surprise of the tokens, in nats (the log of perplexity).
* `least`: the surprise of the least likely token, in nats.
* `entropy`: the mean entropy over the reported candidates of each place, in nats.
* `margin`: the mean of the second candidate's probability over the first's, 0 to 1: TARG's eq. 2
  with its β of 1.
* `variance`: over several samples, the mean share that does not have a place's commonest word, 0 to
  (N - 1) / N: TARG's eq. 3, by words instead of tokens.
* `dissimilarity`: one less the mean similarity of two samples (F of their longest common
  subsequence of words, as ROUGE-L has it), 0 to 1.

The last two need several samples and no log-probabilities.
"""

SAMPLED: frozenset[Gate] = frozenset({"variance", "dissimilarity"})
"""What is measured on several samples."""

THRESHOLDS: Mapping[Gate, float] = MappingProxyType(
    {
        "mean": 0.5,
        "least": 1.6,
        "entropy": 0.8,
        "margin": 0.35,
        "variance": 0.4,
        "dissimilarity": 0.5,
    }
)
"""Where nothing was chosen on labelled questions. TARG's tables 1 and 2 show .80 to .95 for entropy,
.15 to .70 for margin and .40 to .75 for variance, by model and data set; the others are round
numbers of ours."""

CANDIDATES = 5
"""Candidates a place that `entropy` and `margin` ask for: as many as OpenAI's form gives."""

_CERTAIN = math.log(0.99)
"""Log-probability from which on a token without a rival may have none: all others together are
hardly likelier than what a server leaves out."""


def gate_settings(gate: Gate) -> dict[str, Any]:
    """Return the settings of a call whose uncertainty is to be measured."""
    if gate in SAMPLED:
        return {}
    more = {"top_logprobs": CANDIDATES} if gate in ("entropy", "margin") else {}
    return {"logprobs": True, **more}


def uncertainty(message: BaseMessage, gate: Gate) -> float | None:
    """Return how uncertain a reply is; None where it has no token.

    Args:
        message: A reply that was asked for with `gate_settings`.
        gate: What is measured.

    Raises:
        ModelError: The reply reports no log-probabilities, or no candidates where they are needed (of
            none of several places more than the chosen token counts as none; a place without any
            is left out where others have some).
        ValueError: The gate measures samples (`disagreement`).
    """
    if gate in SAMPLED:
        raise ValueError(f"{gate} takes several samples, not one reply")
    logprobs = message.response_metadata.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if not isinstance(content, Sequence):
        if not message.text.strip():
            return None
        raise ModelError(
            "the uncertainty gate needs the probability of each token, and the reply has none: "
            "the server ignores logprobs=True; use one that reports log-probabilities, or gate=variance"
        )
    if not content:
        return None
    try:
        return _measured(content, gate)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ModelError(
            "the uncertainty gate cannot read the reply's log-probabilities: the server writes them "
            f"in another form ({type(error).__name__})"
        ) from error


def _measured(content: Sequence[Any], gate: Gate) -> float:
    surprises = [-_log(entry["logprob"]) for entry in content]
    if gate == "mean":
        return sum(surprises) / len(surprises)
    if gate == "least":
        return max(surprises)
    places = [found for entry in content if (found := _candidates(entry))]
    if not places:
        raise _no_candidates(gate, "has none")
    alone = len(places) > 1 and all(len(one) == 1 for one in places)  # one place shows no habit
    if alone and min(one[0] for one in places) < _CERTAIN:
        raise _no_candidates(gate, "names the chosen token alone")
    measured = [_entropy(one) if gate == "entropy" else _margin(one) for one in map(_with_rival, places)]
    return sum(measured) / len(measured)


def _log(value: Any) -> float:
    number = float(value)
    return -100.0 if math.isnan(number) else min(max(number, -100.0), 0.0)


def _candidates(entry: Mapping[str, Any]) -> list[float]:
    """Return the log-probabilities of a place's candidates, the likeliest first; [] for none.

    Servers leave them out at single places, such as the end of the reply.
    """
    return sorted((_log(one["logprob"]) for one in entry.get("top_logprobs") or ()), reverse=True)


def _no_candidates(gate: Gate, found: str) -> ModelError:
    return ModelError(
        f"gate={gate} needs the candidates of each place, and the reply {found}: the server "
        "ignores top_logprobs; use gate=mean or gate=least"
    )


def _with_rival(candidates: list[float]) -> list[float]:
    """Return a place's candidates; beside one alone stands the probability that it leaves.

    That is all of it, as if one other had it, but never more than the likeliest has.
    """
    if len(candidates) > 1 or candidates[0] == 0.0:
        return candidates
    (likeliest,) = candidates
    return [likeliest, min(likeliest, math.log(-math.expm1(likeliest)))]


def _entropy(candidates: Sequence[float]) -> float:
    """Return the entropy of the candidates as if there were no others."""
    weights = [math.exp(one) for one in candidates]
    total = sum(weights) or 1.0
    return -sum(one / total * math.log(one / total) for one in weights if one > 0)


def _margin(candidates: Sequence[float]) -> float:
    return math.exp(candidates[1] - candidates[0]) if len(candidates) > 1 else 0.0


def disagreement(samples: Sequence[str], gate: Gate) -> float | None:
    """Return how much several replies to one prompt differ; None where none says a word.

    Words are compared in lower case and without punctuation.

    Args:
        samples: The replies' texts.
        gate: `variance` or `dissimilarity`.

    Raises:
        ValueError: The gate measures one reply (`uncertainty`), or there are not two samples.
    """
    if gate not in SAMPLED or len(samples) < 2:
        raise ValueError(f"{gate} of {len(samples)} samples can't be measured")
    said = [words(one) for one in samples]
    if not any(said):
        return None
    if gate == "variance":
        places = list(itertools.zip_longest(*said))  # a sample that has ended says None
        shares = [max(Counter(place).values()) / len(said) for place in places]
        return 1 - sum(shares) / len(shares)
    alike = [_similarity(one, two) for one, two in itertools.combinations(said, 2)]
    return 1 - sum(alike) / len(alike)


def _similarity(one: Sequence[str], two: Sequence[str]) -> float:
    """Return the F measure of the longest common subsequence; two silent samples are alike."""
    if not one and not two:
        return 1.0
    row = [0] * (len(two) + 1)
    for word in one:
        before = row
        row = [0]
        for at, other in enumerate(two):
            row.append(before[at] + 1 if word == other else max(before[at + 1], row[at]))
    return 2 * row[-1] / (len(one) + len(two))
