"""Kind `linear-router`: a router trained on outcomes, which routes were right on which questions.

Each route's probability of a right answer is fitted on blocks as the linear judge's is (`linear`):
features, vectors and words, each with a penalty of its own. The threshold, what a dearer route
must add, is chosen on rows that were not fitted on: the best of those by which no more than
`retrieve_at_most` of the questions are retrieved for.

With a knowledge base (`look`) each row is looked up in it by BM25, as a graph will look up its
question in its own, and the features of that look are learnt from too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ragweave.errors import UsageError
from ragweave.state.records import ROUTES, RouteName
from ragweave.tools.scorers.huggingface import quiet
from ragweave.tools.statistics import Interval, bootstrap
from ragweave.trained import PartRole
from ragweave.trained.judge_reading import Array, load_encoder
from ragweave.trained.router import (
    RouterRead,
    RouterWeights,
    chosen_route,
    feature_names,
    read_drafts,
    write_router,
)
from ragweave.trained.router_words import WORDS, HashedWords
from ragweave.training.encoders.base import check_no_part
from ragweave.training.encoders.kept_rows import KEPT, room_kept
from ragweave.training.encoders.linear import LinearSettings, fit_block
from ragweave.training.encoders.router_rows import (
    look_of,
    looked_at,
    pair_of,
    read_router_rows,
)
from ragweave.training.job import CHECKPOINTS, InputPreview, Job, Settings, TrainingResult
from ragweave.training.measures import as_json, auc_interval
from ragweave.training.rows import RouterRow, TrainingRow, question_key

Labels = NDArray[np.bool_]
"""(n, 3): whether each route was right."""

_ITERATIONS = 1000
_GRID = np.round(np.arange(0.0, 0.401, 0.005), 3)
_HIGHER = np.round(np.arange(0.405, 1.001, 0.005), 3)
"""Thresholds that are tried where none of the others keeps to the share; 1 retrieves for nothing."""


@dataclass(frozen=True, kw_only=True)
class RouterSettings(LinearSettings):
    """Settings of a router."""

    surface_strength: float = 0.02
    """Inverse of the L2 penalty on the weights of the features."""
    meaning_strength: float = 0.001
    """Inverse of the L2 penalty on the weights of the vectors."""
    word_strength: float = 1.0
    """Inverse of the L2 penalty on the weights of the words."""
    word_share: float = 0.5
    """How much of the words' logit counts; 0: words are not read. Blocks that say the same thing
    twice are too sure of it together."""
    folds: int = 5
    """Parts that the questions are dealt into to choose the threshold on rows not fitted on."""
    repeats: int = 1
    """Times that they are dealt again; a router uses one."""
    retrieve_at_most: float = 0.6
    """Greatest share of the questions that the threshold may retrieve for."""
    drafts: bool = True
    """Whether it reads the draft answer too; false: the question alone, as Adaptive-RAG's does."""
    look: str = ""
    """Knowledge base that a first look searches by BM25 before the router chooses; "": no look."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is of the wrong type or out of its range.
        """
        super().__post_init__()
        if not self.word_strength > 0 or not 0 <= self.word_share <= 1:
            raise UsageError("word_strength must be above 0, and word_share between 0 and 1")
        if not 0 < self.retrieve_at_most <= 1:
            raise UsageError(
                f"retrieve_at_most must be above 0, up to 1, not {self.retrieve_at_most}"
            )


def fit_router(read: RouterRead, labels: Labels, settings: RouterSettings) -> RouterWeights:
    """Fit a regression for each route, each calibrated by its own training rows' prior alone."""
    made = [_line(read, labels[:, at], settings) for at in range(len(ROUTES))]
    return RouterWeights(
        np.vstack([one.surface for one in made]),
        np.vstack([one.meaning for one in made]),
        np.vstack([one.words for one in made]),
        np.asarray([one.bias for one in made]),
    )


class _Line(NamedTuple):
    """The weights of one route."""

    surface: Array
    meaning: Array
    words: Array
    bias: float


def _line(read: RouterRead, right: NDArray[np.bool_], settings: RouterSettings) -> _Line:
    blank = np.zeros(WORDS)
    if right.all() or not right.any():
        sure = 6.0 if right.all() else -6.0
        return _Line(np.zeros(read.surface.shape[1]), np.zeros(read.meaning.shape[1]), blank, sure)
    surface, first = fit_block(read.surface, right, settings.surface_strength)
    meaning, second = fit_block(read.meaning, right, settings.meaning_strength)
    prior = float(np.log(right.mean() / (1 - right.mean())))
    bias = first + second - prior  # both blocks' biases hold it
    if not settings.word_share:
        return _Line(surface, meaning, blank, bias)
    words, third = _fit_words(read.words, right, settings.word_strength)
    share = settings.word_share
    return _Line(surface, meaning, share * words, bias + share * (third - prior))


def _fit_words(
    rows: Sequence[HashedWords], right: NDArray[np.bool_], strength: float
) -> tuple[Array, float]:
    """Fit an L2-penalised logistic regression on words; return weights and bias."""
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import LogisticRegression

    ends = np.cumsum([0, *(len(one.columns) for one in rows)])
    columns = np.concatenate([one.columns for one in rows])
    values = np.concatenate([one.values for one in rows])
    made = csr_matrix((values, columns, ends), shape=(len(rows), WORDS))
    model = LogisticRegression(C=strength, max_iter=_ITERATIONS).fit(made, right)
    weights: Array = model.coef_[0]
    return weights, float(model.intercept_[0])


def folds_of(groups: Sequence[str], count: int, seed: int) -> NDArray[np.intp]:
    """Deal questions out to folds: (n,) numbers; rows of one group are in one fold."""
    names = np.random.default_rng(seed).permutation(sorted(set(groups)))
    place = {str(name): at % count for at, name in enumerate(names)}
    return np.asarray([place[one] for one in groups], dtype=np.intp)


def out_of_fold(
    read: RouterRead, labels: Labels, groups: Sequence[str], settings: RouterSettings
) -> Array:
    """Return (n, 3): probabilities by regressions that were not fitted on the row's question."""
    found = np.zeros(labels.shape)
    fold = folds_of(groups, settings.folds, settings.seed)
    for number in range(settings.folds):
        rest = fold == number
        if rest.any() and not rest.all():
            weights = fit_router(read.of(~rest), labels[~rest], settings)
            found[rest] = weights.probabilities(read.of(rest))
    return found


def routes_of(chances: Array, threshold: float) -> NDArray[np.intp]:
    """Return (n,): the number of each row's route, in the order of `ROUTES`."""
    return np.asarray(
        [
            ROUTES.index(chosen_route(dict(zip(ROUTES, map(float, row), strict=True)), threshold))
            for row in chances
        ],
        dtype=np.intp,
    )


def best_threshold(chances: Array, labels: Labels, retrieve_at_most: float) -> float:
    """Return the best threshold within the share of questions retrieved for; the highest of equals.

    An answer is worth the mean of whether it was right and of the probability that it was given:
    on a few hundred rows the threshold with the most right answers is a matter of luck.

    Args:
        chances: (n, 3): probabilities of rows that were not fitted on.
        labels: Which routes were right.
        retrieve_at_most: The share.
    """
    worth = (labels + chances) / 2
    for grid in (_GRID, _HIGHER):
        best, most = float(grid[-1]), -1.0
        for threshold in grid[::-1]:
            routes = routes_of(chances, float(threshold))
            reached = float(worth[np.arange(len(labels)), routes].mean())
            if float((routes > 0).mean()) <= retrieve_at_most and reached > most + 1e-12:
                best, most = float(threshold), reached
        if most >= 0:
            break
    return best


def gate_threshold(
    uncertainties: Sequence[float],
    right: Sequence[tuple[float, float]],
    retrieve_at_most: float = 0.6,
) -> float:
    """Return the uncertainty above which to retrieve: the option `route_threshold` of a gate.

    The one with the most right answers on labelled questions, within the share that is retrieved
    for; the highest of equals.

    Args:
        uncertainties: Of each question's answer without retrieval; infinite where it is retrieved
            for whatever the threshold.
        right: Whether that answer is right, and whether the one after retrieval is; or scores.
        retrieve_at_most: Greatest share of the questions retrieved for.

    Raises:
        UsageError: There is no question, or not one label for each.
    """
    values, labels = np.asarray(uncertainties, np.float64), np.asarray(right, np.float64)
    if not len(values) or labels.shape != (len(values), 2):
        raise UsageError("a gate's threshold takes one uncertainty and two labels a question")
    cuts = np.unique(values[np.isfinite(values)])[::-1]
    best, most = float(cuts[0]) if len(cuts) else 0.0, -1.0
    if len(cuts):
        cuts = np.append(cuts, min(-1.0, cuts[-1] - 1.0))  # below all: always retrieve
    for cut in cuts:
        taken = values > cut
        reached = float(np.where(taken, labels[:, 1], labels[:, 0]).mean())
        if taken.mean() <= retrieve_at_most and reached > most + 1e-12:
            best, most = float(cut), reached
    return best


def router_measures(chances: Array, labels: Labels, threshold: float) -> dict[str, Interval]:
    """Return accuracy and share retrieved of the router, and of fixed and ideal routes beside.

    `auc`: how well it tells what is right without retrieval.
    """
    routes = routes_of(chances, threshold)
    hits = labels[np.arange(len(labels)), routes]
    values: dict[str, Any] = {
        "accuracy": hits,
        "retrieved": routes > 0,
        "many": routes > 1,
        "never": labels[:, 0],
        "always_one": labels[:, 1],
        "always_many": labels[:, 2],
        "ideal": labels.any(axis=1),
    }
    found = {name: bootstrap(one.astype(float).tolist()) for name, one in values.items()}
    known = labels[:, 0]
    if known.any() and not known.all():
        found["auc"] = auc_interval(chances[:, 0].tolist(), known.tolist())
    return found


class RouterRecipe:
    """How a router is trained (`training.job.Recipe`)."""

    roles: tuple[PartRole, ...] = ("router",)
    extra = "train"
    modules = ("torch", "sentence_transformers", "safetensors", "sklearn")

    def defaults(self, role: PartRole) -> Settings:  # noqa: ARG002 - one role alone
        """Return the defaults."""
        return RouterSettings()

    def unused(self, role: PartRole) -> tuple[str, ...]:  # noqa: ARG002 - one role alone
        """Return nothing: the settings themselves refuse what has no effect."""
        return ()

    def check(self, job: Job) -> None:
        """Check that the base, an embedding model, and the knowledge base are available."""
        settings = _settings(job)
        check_no_part(settings.base, job.kind)
        load_encoder(settings.base, device=settings.device)
        look_of(settings.look)

    def preview(self, job: Job) -> Iterator[InputPreview]:
        """Yield each row as the router reads it: features by name, and what was right."""
        settings = _settings(job)
        encoder = load_encoder(settings.base, device=settings.device)
        look = look_of(settings.look)
        names = feature_names(looks=look is not None)
        for row in _router_rows(job.rows.train):
            pair = pair_of(row, drafts=settings.drafts)
            (values,) = read_drafts([pair], encoder, look and [look(*pair)]).surface
            lines = [f"{name} = {one:.3f}" for name, one in zip(names, values, strict=True)]
            right = [name for name in ROUTES if row["right"][name]]
            yield InputPreview("\n".join(lines), f"right: {', '.join(right) or 'no route'}")

    def fit(self, job: Job) -> TrainingResult:
        """Read the rows, fit, choose the threshold, measure, and write `job.folder`."""
        settings = _settings(job)
        rows = _router_rows([*job.rows.train, *job.rows.held_out])
        read, labels = _read(job, rows, settings), labels_of(rows)
        count = len(job.rows.train)
        first = np.arange(len(rows)) < count
        train = read.of(first)
        groups = [question_key(row) for row in rows[:count]]
        free = out_of_fold(train, labels[:count], groups, settings)
        threshold = best_threshold(free, labels[:count], settings.retrieve_at_most)
        inner = as_json(router_measures(free, labels[:count], threshold))
        metrics: dict[str, Any] = {f"out_of_fold_{name}": one for name, one in inner.items()}
        weights = fit_router(train, labels[:count], settings)
        if len(rows) > count:
            chances = weights.probabilities(read.of(~first))
            metrics = {**as_json(router_measures(chances, labels[count:], threshold)), **metrics}
        with room_kept(job.folder / CHECKPOINTS / KEPT):
            write_router(job.folder, weights, looks=bool(settings.look))
        shown = "training rows, out of fold"
        return TrainingResult(
            threshold=threshold,
            threshold_from=shown,
            metrics=metrics,
            data=looked_at(settings.look),
        )


RECIPE = RouterRecipe()


def labels_of(rows: Sequence[Mapping[str, Any]]) -> Labels:
    """Return (n, 3): which routes were right."""
    names: tuple[RouteName, ...] = ROUTES
    return np.asarray([[row["right"][name] for name in names] for row in rows], dtype=np.bool_)


def _read(job: Job, rows: Sequence[RouterRow], settings: RouterSettings) -> RouterRead:
    with quiet():
        encoder = load_encoder(settings.base, device=settings.device)
        return read_router_rows(job, rows, encoder, settings.look, drafts=settings.drafts)


def _settings(job: Job) -> RouterSettings:
    if isinstance(job.settings, RouterSettings):
        return job.settings
    raise UsageError(f"a router takes RouterSettings, not {type(job.settings).__name__}")


def _router_rows(rows: Sequence[TrainingRow]) -> list[RouterRow]:
    return [cast("RouterRow", row) for row in rows]
