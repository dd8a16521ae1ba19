"""Linear judges and routers: logistic regressions that read a question and its draft answer as numbers.

Ours, from no paper. The numbers are twelve plain features, and MiniLM's vectors of the question and of the question with
the draft's first sentence; none sees a right answer. A judge has one regression ("known", in place of SlimPLM's
fine-tuned judge), a router one for each route.

Source of the features: the groups of arXiv 2505.04253 (question type, complexity, popularity, knowledgability), made
without a language model. Counts are log(1 + n).
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragweave.tools.embeddings.named import named_embeddings
from ragweave.tools.text.words import STOP_WORDS
from ragweave.tools.trained.card import Card

Array = NDArray[np.float64]
FEATURES = 12
"""How many plain features there are: the first columns of `read_rows`."""

_WEIGHTS = "linear.safetensors"
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_CONCLUSION = re.compile(r"\bso,? the (?:final )?answer is:?\s*", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])[\"')]?\s+|\n+")
_COMPARES = re.compile(r"\b(?:both|same|or)\b", re.IGNORECASE)
_HEDGE = re.compile(
    r"\b(?:unknown|not (?:known|available|specified|mentioned|provided|clear|possible|sure)|none|n/a|cannot"
    r"|no information|unclear|there is no)\b",
    re.IGNORECASE,
)


def draft_features(question: str, draft: str) -> list[float]:
    """Return the features of a question and a model's answer without retrieval, of length `FEATURES`.

    The draft's answer is what follows "So the answer is", and its reasoning what comes before; without these words, the
    answer is its first sentence, and the reasoning is the full text.
    """
    text = draft.strip().replace("’", "'")
    answer, reasoning = first_sentence(text), text
    for conclusion in _CONCLUSION.finditer(text):  # the last one counts
        answer, reasoning = text[conclusion.end() :], text[: conclusion.start()]
    answer = answer.strip(" \t\n.,;:!?\"'")
    asked, answered, reasoned = (_WORD.findall(part) for part in (question.replace("’", "'"), answer, reasoning))
    lower = [word.lower() for word in reasoned]
    known, length = {word.lower() for word in asked} | STOP_WORDS, max(len(reasoned), 1)
    return [
        math.log1p(len(asked)),
        math.log1p(sum(word[0].isupper() for word in asked[1:])),
        float(_COMPARES.search(question) is not None),
        math.log1p(len(answered)),
        float(any(character.isdigit() for character in answer)),
        math.log1p(len(reasoned)),
        sum(word not in known for word in lower) / length,
        len(set(lower)) / length,
        sum(word[0].isupper() for word in reasoned) / length,
        math.log1p(sum(character.isdigit() for character in reasoning)),
        float(_HEDGE.search(draft) is not None),
        float(bool(answer) and answer.lower() in reasoning.lower()),
    ]


def first_sentence(draft: str) -> str:
    """Return a draft's first sentence."""
    return _SENTENCE.split(draft.strip(), maxsplit=1)[0]


def read_rows(pairs: Sequence[tuple[str, str]], encoder: str) -> Array:
    """Return the features of n pairs of question and draft, which may be empty; shape (n, `FEATURES` + 2d).

    The encoder is an embedding model of d dimensions: `minilm`, a folder or a hub name.
    """
    texts = [
        text
        for question, draft in pairs
        for text in (question.strip(), f"{question.strip()} {first_sentence(draft)}".strip())
    ]
    vectors = np.asarray(named_embeddings(encoder).embed_documents(texts), np.float64)
    return np.hstack([[draft_features(*pair) for pair in pairs], vectors.reshape(len(pairs), -1)])


@dataclass(frozen=True)
class Linear:
    """A judge or router: the weights of c outputs that read n numbers."""

    weights: Array
    """(c, n)"""
    bias: Array
    """(c,)"""
    encoder: str = "minilm"
    """The embedding model, as for `read_rows`."""

    def predict(self, pairs: Sequence[tuple[str, str]]) -> Array:
        """Return (pairs, c): the probability that a draft is known, or that each route's answer is right."""
        return self.probabilities(read_rows(pairs, self.encoder))

    def probabilities(self, rows: Array) -> Array:
        """Return the probability of each output for rows of `read_rows`, (rows, c)."""
        chances: Array = 1 / (1 + np.exp(-np.clip(rows @ self.weights.T + self.bias, -500, 500)))
        return chances

    def write(self, folder: Path) -> None:
        """Write the weights."""
        from safetensors.numpy import save_file

        save_file({"weights": self.weights, "bias": self.bias}, folder / _WEIGHTS)


def load(folder: Path, card: Card) -> Linear:
    """Load a trained judge or router."""
    from safetensors.numpy import load_file

    return Linear(**load_file(folder / _WEIGHTS), encoder=card.base)
