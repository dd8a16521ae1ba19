"""What is usual among the training rows: how near any question is to any name.

A name may be near to a question because it is near to every question, or the question to every
name. The moments of the training rows' vectors say how near to expect.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_LEAST = 1e-3
"""Least deviation counted: a handful of rows has next to none."""


@dataclass(frozen=True)
class Reference:
    """Mean (d,) and covariance (d, d) of training questions' vectors and of candidates' vectors."""

    question_mean: Array
    question_cov: Array
    name_mean: Array
    name_cov: Array

    @classmethod
    def of(cls, questions: Array, names: Array) -> Reference:
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

    def above(self, asked: Array, best: float) -> float:
        """Return how many deviations `best` lies above a usual candidate's cosine to a question."""
        return float((best - self.name_mean @ asked) / _root(asked @ self.name_cov @ asked))

    def specific(self, names: Array, asked: Array) -> float:
        """Return how many deviations a name is nearer to this question than to others, at best.

        Args:
            names: (m, d); of none it is 0.
            asked: The question's vector.
        """
        if not len(names):
            return 0.0
        spread = _root(np.einsum("ij,jk,ik->i", names, self.question_cov, names))
        return float(((names @ asked - names @ self.question_mean) / spread).max())


def _root(variance: Array) -> Array:
    return np.maximum(np.sqrt(np.maximum(variance, 0.0)), _LEAST)
