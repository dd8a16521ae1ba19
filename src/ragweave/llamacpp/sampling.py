"""How the next token is chosen from a row of logits.

Log-probabilities are computed without sorting the vocabulary. `Grammar` constrains a reply to a
GBNF grammar (https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md), and `Sampler`
draws its tokens.
"""

from __future__ import annotations

import ctypes
import json
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragweave.errors import ModelError, UsageError
from ragweave.llamacpp.binding import bind, log
from ragweave.llamacpp.vocabulary import Vocabulary
from ragweave.tools.scorers.specs import checked_score

Row = NDArray[np.float32]
"""Logits or log-probabilities of one position, shape (vocabulary,)."""


def log_normaliser(logits: Row) -> float:
    """Return log(sum(exp(logits))), in natural logarithm.

    Raises:
        ModelError: The logits are not numbers.
    """
    top = _highest(logits)
    return top + float(np.log(np.exp(logits - np.float32(top)).sum(dtype=np.float64)))


def logprob_of(logits: Row, token: int) -> float:
    """Return a token's log-probability, at most 0.

    Raises:
        ModelError: The logits are not numbers, or the token is impossible.
    """
    return checked_score(float(logits[token]) - log_normaliser(logits))


def _highest(logits: Row) -> float:
    top = float(logits.max())
    if not np.isfinite(top):
        raise ModelError("the model computed NaN logits: its file may be damaged")
    return top


def best(logits: Row, count: int) -> NDArray[np.int64]:
    """Return the `count` tokens of highest logit, best first; ties go to the lower token."""
    if count >= logits.size:
        chosen: NDArray[Any] = np.arange(logits.size)
    else:
        chosen = np.argpartition(logits, logits.size - count)[logits.size - count :]
        chosen.sort()
    return chosen[np.argsort(-logits[chosen], kind="stable")]


_ENTRY = np.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")])


class Grammar:
    """The state of one reply under a grammar. Not safe under threads."""

    def __init__(self, vocabulary: Vocabulary, text: str) -> None:
        """Parse a grammar whose start rule is `root`.

        Raises:
            UsageError: The text is not a valid grammar.
        """
        self._lib = bind()
        self._vocabulary = vocabulary
        check_grammar(text)
        mark = log().mark()
        with vocabulary.in_use():
            self._pointer = self._lib.llama_sampler_init_grammar(
                vocabulary.pointer, text.encode(), b"root"
            )
        if not self._pointer:
            raise UsageError(f"the grammar can't be parsed: {log().error(mark)}")
        self._free = weakref.finalize(self, self._lib.llama_sampler_free, self._pointer)

    def allows(self, tokens: NDArray[Any]) -> NDArray[np.bool_]:
        """Return, for each token of a 1-D array, whether it may come next.

        llama.cpp reads the name of a control token as text, which would pass for a reply's.
        """
        entries = np.zeros(len(tokens), _ENTRY)
        entries["id"] = tokens
        array = self._lib.llama_token_data_array(
            data=entries.ctypes.data_as(ctypes.POINTER(self._lib.llama_token_data)),
            size=len(tokens),
            selected=-1,
            sorted=False,
        )
        self._lib.llama_sampler_apply(self._pointer, ctypes.byref(array))
        fits: NDArray[np.bool_] = entries["logit"] == 0.0
        return fits & ~np.isin(tokens, self._vocabulary.silent)

    def accept(self, token: int) -> None:
        """Advance by a token that `allows` accepted; llama.cpp aborts on any other."""
        if not self._vocabulary.ends(token):
            self._lib.llama_sampler_accept(self._pointer, token)

    def close(self) -> None:
        """Free the grammar."""
        self._free()


def check_grammar(text: str) -> None:
    """Reject what llama.cpp's parser can't tell apart from an empty grammar.

    Raises:
        UsageError: The grammar is empty, or contains a null character, which would cut it short.
    """
    if not text.strip():
        raise UsageError("the grammar is empty: leave it out, or give a rule 'root ::= …'")
    if "\0" in text:
        raise UsageError("the grammar contains a null character")


def schema_grammar(schema: Mapping[str, Any]) -> str:
    """Return the GBNF grammar of the JSON texts that a JSON schema allows.

    Raises:
        UsageError: The schema uses what can't be turned into a grammar.
    """
    bind()
    from llama_cpp.llama_grammar import json_schema_to_gbnf

    try:
        return str(json_schema_to_gbnf(json.dumps(schema)))
    except (KeyError, TypeError, ValueError, AssertionError, RecursionError) as error:
        raise UsageError(f"this JSON schema can't be turned into a grammar: {error}") from error


def unsatisfiable() -> ModelError:
    """Return the error of a reply for which the grammar allows no next token."""
    return ModelError("the grammar can't be satisfied: it allows none of this model's tokens next")


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
    """Subtracted from the logits of tokens that are in the reply (OpenAI)."""
    repetition_penalty: float = 1.0
    """Divides positive logits, multiplies negative ones, of tokens that are in the prompt or the
    reply (Keskar et al. 2019, CTRL); 1 changes nothing."""

    def __post_init__(self) -> None:
        if not self.temperature >= 0.0 or np.isinf(self.temperature):
            raise UsageError(f"temperature must be 0 or more, not {self.temperature}")
        if not 0.0 <= self.top_p <= 1.0:
            raise UsageError(f"top_p must be between 0 and 1, not {self.top_p}")
        if self.top_k < 0:
            raise UsageError(f"top_k must be 0 or more, not {self.top_k}")
        if not 0.0 <= self.min_p <= 1.0:
            raise UsageError(f"min_p must be between 0 and 1, not {self.min_p}")
        if not -10.0 <= self.presence_penalty <= 10.0:
            raise UsageError(
                f"presence_penalty must be between -10 and 10, not {self.presence_penalty}"
            )
        if not 0.0 < self.repetition_penalty <= 10.0:
            raise UsageError(
                f"repetition_penalty must be above 0 and at most 10, not {self.repetition_penalty}"
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
        self._reply: set[int] = set()
        self._grammar = grammar
        self._random = np.random.default_rng(settings.seed)

    def pick(self, logits: Row) -> int:
        """Return the next token.

        Under a grammar, an unconstrained choice is made first, and all tokens are checked only
        where the grammar rejects it. Without top_k and top_p that draws from exactly the
        renormalised distribution: p(t) + p(rejected) * p(t) / p(allowed) = p(t) / p(allowed).

        Raises:
            ModelError: The logits are not numbers, or no token satisfies the grammar.
        """
        _highest(logits)
        logits = self._penalised(logits)
        token = self._draw(logits)
        if self._grammar is not None:
            if not self._grammar.allows(np.array([token]))[0]:
                token = self._constrained(logits, self._grammar)
            self._grammar.accept(token)
        self.note(token)
        return token

    def note(self, token: int) -> None:
        """Add a token to the reply, whoever chose it."""
        self._reply.add(token)
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
        if s.presence_penalty and self._reply:
            out[np.fromiter(self._reply, np.int64)] -= np.float32(s.presence_penalty)
        return out

    def _constrained(self, logits: Row, grammar: Grammar) -> int:
        if self._settings.temperature == 0.0:
            likely = best(logits, 64)
            passing = likely[grammar.allows(likely)]
            if passing.size:
                return int(passing[0])
        masked = np.where(grammar.allows(np.arange(logits.size)), logits, -np.inf)
        if np.isneginf(masked.max()):
            raise unsatisfiable()
        return self._draw(masked.astype(np.float32))

    def _draw(self, logits: Row) -> int:
        s = self._settings
        if s.temperature == 0.0 or s.top_k == 1 or s.top_p == 0.0:
            return int(logits.argmax())
        tokens, sums = self._candidates(logits)
        index = int(np.searchsorted(sums, self._random.random() * sums[-1], side="right"))
        return int(tokens[min(index, len(sums) - 1)])

    def _candidates(self, logits: Row) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the tokens that may be drawn and their cumulative weights."""
        s = self._settings
        scaled = np.exp((logits - logits.max()).astype(np.float64) / s.temperature)
        # The likeliest token has weight 1, so min_p compares with the weights directly.
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
    """Cut sorted candidates where they reach `top_p`; the one that crosses the limit stays."""
    count = int(np.searchsorted(sums, top_p * total)) + 1
    return tokens[:count], sums[:count]
