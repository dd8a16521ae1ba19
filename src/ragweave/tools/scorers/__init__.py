"""Scorers: log-probabilities of a continuation given a prompt."""

from ragweave.tools.scorers.huggingface import HuggingFaceScorer
from ragweave.tools.scorers.protocol import LogprobScorer, ascore

__all__ = ["HuggingFaceScorer", "LogprobScorer", "ascore"]
