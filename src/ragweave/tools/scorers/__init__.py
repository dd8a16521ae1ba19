"""Scorers: log-probabilities of a continuation given a prompt."""

from ragweave.tools.scorers.huggingface import HuggingFaceScorer
from ragweave.tools.scorers.server import ServerScorer
from ragweave.tools.scorers.specs import SCORER_ROLE, LogprobScorer, counting, scored

__all__ = [
    "LogprobScorer",
    "HuggingFaceScorer",
    "ServerScorer",
    # what a run's usage counts
    "SCORER_ROLE",
    "counting",
    "scored",
]
