"""Scorers: log-probabilities of a continuation given a prompt."""

from ragweave.tools.scorers.huggingface import HuggingFaceScorer
from ragweave.tools.scorers.server import ServerScorer
from ragweave.tools.scorers.specs import LogprobScorer, ascore

__all__ = ["HuggingFaceScorer", "LogprobScorer", "ServerScorer", "ascore"]
