"""From a question and its draft to the two rows of numbers that a linear judge weighs.

`read_pairs` computes them: the surface row is `judge_features` and the cosines between question,
draft and candidates (`similarities`), which show what the embedding model itself remembers; the
meaning row is the vectors. `Encoder` is that embedding model, loaded from this machine.

A name may be similar to a question only because it is similar to every question, or the question
to every name. The moments of the training rows' vectors (`ReferenceMoments`) say how much similarity to
expect.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragweave.errors import KnowledgeBaseError, MissingExtraError, ModelError, UsageError
from ragweave.tools.retrieval.embedding import PACKAGED, load_sentence_transformer
from ragweave.trained.judge_features import NAMES, candidates, features, first_sentence, sentences

Array = NDArray[np.float64]

_MIN_DEVIATION = 1e-3
"""Least deviation counted: a handful of rows has next to none."""


@dataclass(frozen=True)
class ReferenceMoments:
    """Mean (d,) and covariance (d, d) of training questions' vectors and of candidates' vectors."""

    question_mean: Array
    question_cov: Array
    name_mean: Array
    name_cov: Array

    @classmethod
    def of(cls, questions: Array, names: Array) -> ReferenceMoments:
        """Take the moments of vectors of unit length.

        Args:
            questions: (n, d), n at least 1; of training rows only.
            names: (m, d) of candidates in their drafts; without any, questions stand for them.
        """
        sample = names if len(names) else questions
        return cls(
            questions.mean(axis=0),
            np.cov(questions.T, bias=True),
            sample.mean(axis=0),
            np.cov(sample.T, bias=True),
        )

    def candidate_z_score(self, asked: Array, best: float) -> float:
        """Return how many deviations `best` lies above a usual candidate's cosine to a question."""
        return float((best - self.name_mean @ asked) / _deviation(asked @ self.name_cov @ asked))

    def specificity_z_score(self, names: Array, asked: Array) -> float:
        """Return how many deviations a name is nearer to this question than to others, at best.

        Args:
            names: (m, d); of none it is 0.
            asked: The question's vector.
        """
        if not len(names):
            return 0.0
        spread = _deviation(np.einsum("ij,jk,ik->i", names, self.question_cov, names))
        return float(((names @ asked - names @ self.question_mean) / spread).max())


def _deviation(variance: Array) -> Array:
    return np.maximum(np.sqrt(np.maximum(variance, 0.0)), _MIN_DEVIATION)


_LONG_TEXT = 300
"""Characters from which a text is computed apart: it would pad the short ones to its length."""
_MOST_CACHED_WORDS = 50_000
"""Words whose pieces are kept."""


class Encoder:
    """Vectors and word pieces of an embedding model; calls from several threads take turns."""

    def __init__(self, model: Any) -> None:
        """Take a `SentenceTransformer`."""
        self._model, self._lock = model, threading.RLock()
        self._pieces: dict[str, tuple[int, ...]] = {}

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._model.get_embedding_dimension())

    def vectors(self, texts: Sequence[str]) -> dict[str, Array]:
        """Return the unit vector of each text; a text that comes twice is computed once."""
        found: dict[str, Array] = {}
        apart = dict.fromkeys(texts)
        for long in (False, True):
            group = [text for text in apart if (len(text) > _LONG_TEXT) == long]
            if group:
                with self._lock:
                    made = self._model.encode(
                        group, normalize_embeddings=True, show_progress_bar=False
                    )
                found.update(zip(group, np.asarray(made, dtype=np.float64), strict=True))
        return found

    def pieces(self, word: str) -> tuple[int, ...]:
        """Return the ids of a word's pieces, without special tokens."""
        with self._lock:
            if word not in self._pieces:
                if len(self._pieces) >= _MOST_CACHED_WORDS:
                    self._pieces.clear()
                ids = self._model.tokenizer(word, add_special_tokens=False, verbose=False)
                self._pieces[word] = tuple(ids["input_ids"])
            return self._pieces[word]

    def count(self, texts: Sequence[str]) -> int:
        """Return the number of tokens read of the texts, special ones included."""
        if not texts:
            return 0
        limit = self._model.max_seq_length
        with self._lock:
            encoded = self._model.tokenizer(list(texts), truncation=False, verbose=False)
        return sum(min(len(ids), limit or len(ids)) for ids in encoded["input_ids"])


def load_encoder(name: str, near: Path | None = None, device: str = "auto") -> Encoder:
    """Load an embedding model; nothing is downloaded, and no code that came with it is run.

    Args:
        name: `minilm` (packaged), a folder's path, or a hub name that the hub's cache holds.
        near: A folder that a relative path may start from too.
        device: `auto` (a GPU where there is one), `cpu`, `cuda`, `cuda:1`.

    Raises:
        MissingExtraError: sentence-transformers or the packaged MiniLM is not installed.
        ModelError: It is not here (the text says what to download), can't be read, or its weights
            are those of another model.
        UsageError: Something in its folder could run, or there is no such device.
    """
    if find_spec("sentence_transformers") is None or find_spec("safetensors") is None:
        raise MissingExtraError("A linear judge or router", "offline")
    try:
        model = load_sentence_transformer(_place(name, near))
    except KnowledgeBaseError as error:
        raise ModelError(f"the base model {name} can't be read: {error}") from error
    if name != PACKAGED:
        _check_weights(model)
    if device != "auto":
        try:
            model.to(device)
        except (RuntimeError, AssertionError) as error:
            message = " ".join(str(error).split())[:200]
            raise UsageError(f"device {device!r} is not available ({message})") from error
    return Encoder(model)


_NEW = "pooler"
"""Prefix of the weights that a base may lack: sentence vectors are not made of them."""


def _check_weights(model: Any) -> None:
    """See that no weight is missing: it would be a random number.

    Where the names in the file don't settle it (transformers ties and renames some), the weights
    are read once more, and transformers says which it missed.
    """
    from ragweave.trained.encoders import WEIGHTS, read_encoder

    inner = getattr(model, "transformers_model", None)
    if inner is None or _all_named(inner, Path(inner.name_or_path) / WEIGHTS):
        return
    read_encoder(Path(inner.name_or_path), type(inner).__name__, new=_NEW)


def _all_named(inner: Any, file: Path) -> bool:
    """Say whether a file has each of a model's weights by its name; only its header is read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy") as stream:
            named = {one.removeprefix(f"{inner.base_model_prefix}.") for one in stream.keys()}  # noqa: SIM118
    except (OSError, SafetensorError):
        return False
    return all(one in named or one.startswith(_NEW) for one in inner.state_dict())


def _place(name: str, near: Path | None) -> str:
    if name == PACKAGED:
        return name
    from ragweave.tools.scorers.huggingface import find_base_model
    from ragweave.trained.encoders import WEIGHTS, check_configurations

    folder = find_base_model(name, near)
    check_configurations(folder)
    if not (folder / WEIGHTS).is_file():
        raise UsageError(f"{folder}: has no {WEIGHTS}, and pickled weights are not read")
    return str(folder)


SIMILARITIES: tuple[str, ...] = (
    "question_first",
    "question_draft",
    "candidate_max",
    "candidate_mean",
    "any_candidate_max",
    "any_candidate_mean",
    "candidate_above_reference",
    "candidate_specific",
    "coherence",
    "question_sentences_mean",
)
"""Names of `similarities`, in order."""

_ONE_SENTENCE = 0.6
"""Coherence of a draft of one sentence: about that of any draft."""


class Vectors(NamedTuple):
    """Vectors of unit length of a question and its draft, one a row."""

    question: Array
    """(d,)"""
    draft: Array
    """(d,)"""
    opened: Array
    """(d,): of the question followed by the draft's first sentence."""
    sentences: Array
    """(s, d): of the draft's sentences; may be none."""
    first: Array
    """(c, d): of the candidates in the first sentence; may be none."""
    every: Array
    """(e, d): of the candidates in the whole draft; may be none."""


def similarities(vectors: Vectors, reference: ReferenceMoments) -> list[float]:
    """Return the cosines, in the order of `SIMILARITIES`; without candidates theirs are 0."""
    asked = vectors.question
    said = vectors.sentences if len(vectors.sentences) else np.zeros((1, len(asked)))
    near, far = _cosines(vectors.first, asked), _cosines(vectors.every, asked)
    return [
        float(said[0] @ asked),
        float(vectors.draft @ asked),
        float(near.max()),
        float(near.mean()),
        float(far.max()),
        float(far.mean()),
        reference.candidate_z_score(asked, float(near.max())),
        reference.specificity_z_score(vectors.first, asked),
        _coherence(said),
        float((said @ asked).mean()),
    ]


def _cosines(vectors: Array, asked: Array) -> Array:
    return vectors @ asked if len(vectors) else np.zeros(1)


def _coherence(said: Array) -> float:
    """Return the mean cosine between two sentences."""
    count = len(said)
    if count < 2:
        return _ONE_SENTENCE
    return float(((said @ said.T).sum() - np.trace(said @ said.T)) / (count * (count - 1)))


COLUMNS: tuple[str, ...] = (*NAMES, *SIMILARITIES)
"""Names of the surface columns, in order."""

_MAX_SENTENCES, _MAX_CANDIDATES = 12, 40


class PairFeatures(NamedTuple):
    """Rows of numbers, one a pair."""

    surface: Array
    """(n, len(COLUMNS)): what the words and the cosines show."""
    meaning: Array
    """(n, 2d): the vectors of the question, and of the question with the first sentence."""


class PairTexts(NamedTuple):
    """The texts of a pair that the encoder reads."""

    question: str
    draft: str
    opened: str
    sentences: list[str]
    first: list[str]
    every: list[str]

    def all(self) -> Iterator[str]:
        """Yield each text."""
        yield from (self.question, self.draft, self.opened)
        yield from (*self.sentences, *self.first, *self.every)


def pair_texts(question: str, draft: str) -> PairTexts:
    """Return what the encoder reads of a pair: at most 12 sentences and 40 candidates of a draft."""
    asked, said = question.strip(), draft.strip()
    first = first_sentence(said)
    return PairTexts(
        asked,
        said,
        f"{asked} {first}".strip(),
        sentences(said)[:_MAX_SENTENCES],
        candidates(asked, first)[:_MAX_CANDIDATES],
        candidates(asked, said)[:_MAX_CANDIDATES],
    )


def read_pairs(
    pairs: Sequence[tuple[str, str]], encoder: Encoder, reference: ReferenceMoments
) -> PairFeatures:
    """Read pairs of question and draft."""
    texts = [pair_texts(*pair) for pair in pairs]
    known = encoder.vectors([text for one in texts for text in one.all()])
    found = [_vectors(one, known, encoder.dimension) for one in texts]
    surface = [
        [
            *features(one.question, one.draft, encoder.pieces),
            *similarities(vectors, reference),
        ]
        for one, vectors in zip(texts, found, strict=True)
    ]
    meaning = [np.concatenate([one.question, one.opened]) for one in found]
    return PairFeatures(
        np.asarray(surface, dtype=np.float64).reshape(len(texts), len(COLUMNS)),
        np.asarray(meaning, dtype=np.float64).reshape(len(texts), 2 * encoder.dimension),
    )


def _vectors(texts: PairTexts, known: dict[str, Array], size: int) -> Vectors:
    def rows(some: Sequence[str]) -> Array:
        return np.asarray([known[one] for one in some]).reshape(len(some), size)

    return Vectors(
        known[texts.question],
        known[texts.draft],
        known[texts.opened],
        rows(texts.sentences),
        rows(texts.first),
        rows(texts.every),
    )
