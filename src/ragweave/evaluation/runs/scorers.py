"""The scorer of a run by spec: what CXMI measures sentences with."""

from __future__ import annotations

from ragweave.tools.scorers.specs import LogprobScorer, scorer_of_spec


def open_scorer(spec: str) -> LogprobScorer | None:
    """Return the scorer that a spec names, tried once; None for "".

    Raises:
        UsageError: The spec is not understood, or its model is not on this machine.
        MissingExtraError: Its packages are not installed.
        ModelError: The model cannot be loaded, or its server gives no log-probabilities.
    """
    if not spec:
        return None
    scorer = scorer_of_spec(spec)
    scorer.score([("A bridge is a", " bridge.")])  # better now than at every question
    return scorer


def scores_itself(model: str) -> bool:
    """Say whether a chat model of this spec brings its scorer along."""
    return model.strip().startswith("llamacpp:")
