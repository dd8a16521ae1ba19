"""Training of linear judges and routers by scikit-learn.

The three regressions (`tools/trained/linear.py`) are fitted apart, each with a penalty of its own: the features are few
and say much each, the columns of vectors and words are many and say little. The threshold is chosen on training rows
out of fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
from pydantic import Field

from ragweave.errors import UsageError
from ragweave.state import ROUTES
from ragweave.tools.trained.card import Role
from ragweave.tools.trained.features import WORDS, HashedWords
from ragweave.tools.trained.linear import Array, Linear, Rows, read_rows, write_linear
from ragweave.tools.trained.models import dearest
from ragweave.training.job import Job, Settings, Trained
from ragweave.training.measures import Flags, auc, best_balanced, judged
from ragweave.training.rows import JudgeRow, RouterRow, Row, question_key

_STRENGTHS = {"features": 0.02, "vectors": 0.001, "words": 1.0}
"""Inverse L2 penalties."""
_WORD_SHARE = 0.5
"""How much of the words' logit counts: regressions that say the same thing twice are too sure of it together."""
_SURE = 6.0
"""The logit of a route that was right on every row."""
_GRID = np.round(np.arange(0.0, 1.001, 0.005), 3)


class LinearSettings(Settings):
    """Settings of linear judges and routers."""

    folds: int = Field(5, ge=2)
    """Folds of the questions, to choose the threshold on rows that were not fitted on."""


class RouterSettings(LinearSettings):
    """Settings of routers."""

    retrieve_at_most: float = Field(0.6, gt=0, le=1)
    """Greatest share of the questions that the threshold may retrieve for."""
    drafts: bool = True
    """Whether the draft answer is read too; false: the question alone, as Adaptive-RAG's classifier does."""


def settings_for(role: Role, given: dict[str, Any]) -> Settings:
    """Return the settings of a role, with those given."""
    return (RouterSettings if role == "router" else LinearSettings)(**given)


def fit_linear(rows: Rows, labels: Flags) -> Linear:
    """Fit the regressions of each output.

    Args:
        rows: n pairs.
        labels: (n, c).
    """
    fitted = [_output(rows, labels[:, at]) for at in range(labels.shape[1])]
    features, vectors, words = (np.vstack([one[name] for one in fitted]) for name in _STRENGTHS)
    return Linear(features, vectors, words, np.concatenate([one["bias"] for one in fitted]))


def _output(rows: Rows, right: Flags) -> dict[str, Array]:
    if right.all() or not right.any():
        sizes = {"features": rows.features.shape[1], "vectors": rows.vectors.shape[1], "words": WORDS}
        return {
            **{name: np.zeros(size) for name, size in sizes.items()},
            "bias": np.array([_SURE if right.any() else -_SURE]),
        }
    prior = float(np.log(right.mean() / (1 - right.mean())))
    features, first = _standardised(rows.features, right, _STRENGTHS["features"])
    vectors, second = _standardised(rows.vectors, right, _STRENGTHS["vectors"])
    words, third = _regression(_matrix(rows.words), right, _STRENGTHS["words"])
    bias = first + second - prior + _WORD_SHARE * (third - prior)  # each of the biases has the prior in it
    return {"features": features, "vectors": vectors, "words": _WORD_SHARE * words, "bias": np.array([bias])}


def _standardised(block: Array, right: Flags, strength: float) -> tuple[Array, float]:
    """Fit standardised columns; return weights and bias for the columns as they are."""
    mean, scale = block.mean(axis=0), block.std(axis=0)
    scale = np.where(scale < 1e-9, 1.0, scale)
    weights, bias = _regression((block - mean) / scale, right, strength)
    return weights / scale, float(bias - (weights / scale) @ mean)


def _regression(block: Any, right: Flags, strength: float) -> tuple[Array, float]:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=strength, max_iter=1000).fit(block, right)
    return np.asarray(model.coef_[0], np.float64), float(model.intercept_[0])


def _matrix(words: Sequence[HashedWords]) -> Any:
    from scipy.sparse import csr_matrix

    ends = np.cumsum([0, *(len(one.columns) for one in words)])
    values, columns = (np.concatenate([one[at] for one in words]) for at in (1, 0))
    return csr_matrix((values, columns, ends), shape=(len(words), WORDS))


def out_of_fold(rows: Rows, labels: Flags, groups: Sequence[str], folds: int, seed: int = 0) -> Array:
    """Return (n, c): probabilities by regressions that were not fitted on the row's question.

    Args:
        rows: n pairs.
        labels: (n, c).
        groups: What rows of one question share, such as its text.
        folds: Folds that the questions are dealt into.
        seed: Seed of the deal.
    """
    names = np.random.default_rng(seed).permutation(sorted(set(groups)))
    fold = {str(name): at % folds for at, name in enumerate(names)}
    dealt = np.asarray([fold[one] for one in groups])
    found = np.zeros(labels.shape)
    for number in range(folds):
        rest, here = np.flatnonzero(dealt != number), np.flatnonzero(dealt == number)
        if len(here) and len(rest):
            found[here] = fit_linear(rows.at(rest), labels[rest]).probabilities(rows.at(here))
    return found


def routes_of(chances: Array, threshold: float) -> Array:
    """Return (n,): the number of each row's route, by the probabilities (n, 3) that a route's answer is right."""
    return np.asarray([dearest(row, threshold) for row in chances.tolist()])


def best_threshold(chances: Array, labels: Flags, retrieve_at_most: float) -> float:
    """Return the threshold with the best answers within the share of questions retrieved for; the highest of equals.

    An answer is worth the mean of whether it was right and of the probability that it was: on a few hundred rows the
    threshold with the most right answers is a matter of luck.

    Args:
        chances: (n, 3), of rows that were not fitted on.
        labels: (n, 3): which routes were right.
        retrieve_at_most: The share.
    """
    worth, best, most = (labels + chances) / 2, 1.0, -1.0
    for threshold in _GRID[::-1]:
        routes = routes_of(chances, float(threshold))
        reached = float(worth[np.arange(len(routes)), routes].mean())
        if (routes > 0).mean() <= retrieve_at_most and reached > most + 1e-12:
            best, most = float(threshold), reached
    return best


def routed(chances: Array, labels: Flags, threshold: float) -> dict[str, float]:
    """Return a router's accuracy and share retrieved, fixed routes beside it, and the AUC of "right without"; {} of no rows."""
    if not len(labels):
        return {}
    routes = routes_of(chances, threshold)
    found = {
        "accuracy": labels[np.arange(len(routes)), routes],
        "retrieved": routes > 0,
        "never": labels[:, 0],
        "always_one": labels[:, 1],
        "always_many": labels[:, 2],
        "ideal": labels.any(axis=1),
    }
    return {**{name: float(one.mean()) for name, one in found.items()}, "auc": auc(chances[:, 0], labels[:, 0])}


def fit(job: Job) -> Trained:
    """Fit a judge or a router, choose its threshold and measure it."""
    settings = cast("LinearSettings", job.settings)
    labels, held_labels = _labels(job.train), _labels(job.held_out)
    if job.role == "judge" and (labels.all() or not labels.any()):
        raise UsageError("all drafts have the same label, and a judge learns from both")
    train, held = (list(_read(rows, settings)) for rows in (job.train, job.held_out))
    rows = _stacked(train)
    free = out_of_fold(rows, labels, [question_key(row) for row in job.train], settings.folds, settings.seed)
    weights = fit_linear(rows, labels)
    chances = weights.probabilities(_stacked(held)) if held else np.zeros((0, labels.shape[1]))
    write_linear(job.folder, weights)
    if not isinstance(settings, RouterSettings):
        threshold = best_balanced(free[:, 0], labels[:, 0])
        found = _both(lambda p, y: judged(p[:, 0], y[:, 0], threshold), (free, labels), (chances, held_labels))
        return Trained(metrics=found, fields={"threshold": threshold})
    threshold = best_threshold(free, labels, settings.retrieve_at_most)
    found = _both(lambda p, y: routed(p, y, threshold), (free, labels), (chances, held_labels))
    return Trained(metrics=found, fields={"threshold": threshold, "drafts": settings.drafts})


def _both(
    measure: Callable[[Array, Flags], dict[str, float]], free: tuple[Array, Flags], held: tuple[Array, Flags]
) -> dict[str, float]:
    return {**measure(*held), **{f"out_of_fold_{name}": one for name, one in measure(*free).items()}}


def _labels(rows: Sequence[Row]) -> Flags:
    listed = [
        [one.right[name] for name in ROUTES] if isinstance(one, RouterRow) else [cast("JudgeRow", one).known]
        for one in rows
    ]
    return np.asarray(listed, np.bool_)


_AT_ONCE = 256


def _read(rows: Sequence[Row], settings: LinearSettings) -> Iterator[Rows]:
    drafts = getattr(settings, "drafts", True)
    pairs = [(one.question, cast("JudgeRow | RouterRow", one).draft if drafts else "") for one in rows]
    for at in range(0, len(pairs), _AT_ONCE):
        yield read_rows(pairs[at : at + _AT_ONCE], settings.base)


def _stacked(parts: Sequence[Rows]) -> Rows:
    features, vectors = (np.vstack([getattr(one, name) for one in parts]) for name in ("features", "vectors"))
    return Rows(features, vectors, [said for one in parts for said in one.words])
