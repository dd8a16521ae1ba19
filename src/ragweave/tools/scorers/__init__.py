"""Scorers: log-probabilities of a continuation given a prompt."""

from ragweave.tools.scorers.huggingface import HuggingFaceScorer
from ragweave.tools.scorers.protocol import LogprobScorer, ascore
from ragweave.tools.scorers.server import ServerScorer

__all__ = ["HuggingFaceScorer", "LogprobScorer", "ServerScorer", "ascore"]
