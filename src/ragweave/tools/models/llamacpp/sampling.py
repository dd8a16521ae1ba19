"""How the next token is chosen from a row of logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragweave.errors import ModelError, UsageError
from ragweave.tools.models.llamacpp.grammar import Grammar, refused
from ragweave.tools.models.llamacpp.logprobs import Row, best


@dataclass(frozen=True)
class Sampling:
    """Settings of the choice; the defaults are greedy."""

    temperature: float = 0.0
    """0 takes the likeliest token; else logits are divided by it before `top_p` applies."""
    top_p: float = 1.0
    """Only the likeliest tokens that together reach this probability stay."""
    top_k: int = 0
    """Only the `top_k` likeliest tokens stay; 0 keeps all."""
    seed: int | None = None
    """Makes sampling repeatable; None draws afresh."""
    min_p: float = 0.0
    """Only tokens at least this likely, measured against the likeliest, stay."""
    presence_penalty: float = 0.0
    """Subtracted from the logits of tokens that the reply has (OpenAI)."""
    repetition_penalty: float = 1.0
    """Divides positive logits, multiplies negative ones, of tokens that prompt or reply have
    (Keskar et al. 2019, CTRL); 1 changes nothing."""

    def __post_init__(self) -> None:
        if not self.temperature >= 0.0 or np.isinf(self.temperature):
            raise UsageError(f"temperature must be 0 or more, not {self.temperature}")
        if not 0.0 <= self.top_p <= 1.0:
            raise UsageError(f"top_p must lie between 0 and 1, not {self.top_p}")
        if self.top_k < 0:
            raise UsageError(f"top_k must be 0 or more, not {self.top_k}")
        if not 0.0 <= self.min_p <= 1.0:
            raise UsageError(f"min_p must lie between 0 and 1, not {self.min_p}")
        if not -10.0 <= self.presence_penalty <= 10.0:
            raise UsageError(
                f"presence_penalty must lie between -10 and 10, not {self.presence_penalty}"
            )
        if not 0.0 < self.repetition_penalty <= 10.0:
            raise UsageError(
                f"repetition_penalty must be above 0, up to 10, not {self.repetition_penalty}"
            )
        if self.seed is not None and self.seed < 0:
            raise UsageError(f"seed must be 0 or more, not {self.seed}")


class Sampler:
    """Chooses the tokens of one reply, one after another."""

    def __init__(
        self, settings: Sampling, grammar: Grammar | None = None, prompt: Sequence[int] = ()
    ) -> None:
        """Start a reply to a prompt of these tokens."""
        self._settings = settings
        self._seen: set[int] = set(prompt) if settings.repetition_penalty != 1.0 else set()
        self._said: set[int] = set()
        self._grammar = grammar
        self._random = np.random.default_rng(settings.seed)

    def pick(self, logits: Row) -> int:
        """Return the next token.

        Under a grammar, the free choice is taken where the grammar lets it pass; only otherwise
        are all tokens checked. Without top_k and top_p that draws from exactly the renormalised
        distribution: p(t) + p(refused) * p(t) / p(allowed) = p(t) / p(allowed).

        Raises:
            ModelError: The logits hold no number, or no token satisfies the grammar.
        """
        if not np.isfinite(logits.max()):
            raise ModelError("the model computed no numbers (NaN): its file may be damaged")
        logits = self._penalised(logits)
        token = self._draw(logits)
        if self._grammar is not None:
            if not self._grammar.allows(np.array([token]))[0]:
                token = self._constrained(logits, self._grammar)
            self._grammar.accept(token)
        self.note(token)
        return token

    def note(self, token: int) -> None:
        """Take a token as a part of the reply, whoever chose it."""
        self._said.add(token)
        self._seen.add(token)

    def _penalised(self, logits: Row) -> Row:
        """Return the logits under the penalties; the row itself where there are none."""
        s = self._settings
        if s.presence_penalty == 0.0 and s.repetition_penalty == 1.0:
            return logits
        out = logits.copy()
        if s.repetition_penalty != 1.0 and self._seen:
            seen = np.fromiter(self._seen, np.int64)
            values = out[seen]
            penalty = np.float32(s.repetition_penalty)
            out[seen] = np.where(values > 0, values / penalty, values * penalty)
        if s.presence_penalty and self._said:
            out[np.fromiter(self._said, np.int64)] -= np.float32(s.presence_penalty)
        return out

    def _constrained(self, logits: Row, grammar: Grammar) -> int:
        if self._settings.temperature == 0.0:
            likely = best(logits, 64)
            passing = likely[grammar.allows(likely)]
            if passing.size:
                return int(passing[0])
        masked = np.where(grammar.allows(np.arange(logits.size)), logits, -np.inf)
        if np.isneginf(masked.max()):
            raise refused()
        return self._draw(masked.astype(np.float32))

    def _draw(self, logits: Row) -> int:
        s = self._settings
        if s.temperature == 0.0 or s.top_k == 1 or s.top_p == 0.0:
            return int(logits.argmax())
        tokens, sums = self._candidates(logits)
        at = int(np.searchsorted(sums, self._random.random() * sums[-1], side="right"))
        return int(tokens[min(at, len(sums) - 1)])

    def _candidates(self, logits: Row) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the tokens that may be drawn and their cumulated weights."""
        s = self._settings
        scaled = np.exp((logits - logits.max()).astype(np.float64) / s.temperature)
        # The likeliest token weighs 1, so that its share of a share is the share itself.
        scaled[scaled < s.min_p] = 0.0
        if s.top_k == 0 and s.top_p == 1.0:
            return np.arange(logits.size), np.cumsum(scaled)
        if s.top_k:
            tokens = best(logits, s.top_k)
            return _nucleus(tokens, np.cumsum(scaled[tokens]), float(scaled[tokens].sum()), s.top_p)
        # Most nuclei are small: the whole vocabulary is sorted only where it must be.
        total = float(scaled.sum())
        for count in (64, 1024, logits.size):
            tokens = best(logits, count)
            sums = np.cumsum(scaled[tokens])
            if sums[-1] >= s.top_p * total:
                break
        return _nucleus(tokens, sums, total, s.top_p)


def _nucleus(
    tokens: NDArray[np.int64], sums: NDArray[np.float64], total: float, top_p: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Cut sorted candidates where they reach `top_p`; the one that crosses the line stays."""
    count = int(np.searchsorted(sums, top_p * total)) + 1
    return tokens[:count], sums[:count]
