"""Errors that ragweave raises for people to read: what was wrong, where, what to do."""

from __future__ import annotations


class RagweaveError(Exception):
    """Base of every error that ragweave raises on purpose; its text is one clear line."""


class UsageError(RagweaveError, ValueError):
    """The caller's mistake (unknown method, k < 1, empty question); the CLI exits with 2."""


class MissingExtraError(RagweaveError, ImportError):
    """A feature needs packages that are not installed; the text says what to install."""

    def __init__(self, feature: str, extra: str) -> None:
        """Name the feature and the extra that brings it.

        Args:
            feature: What the caller asked for, as the subject of a sentence.
            extra: Name of the extra in `pip install "ragweave[extra]"`.
        """
        super().__init__(f'{feature} needs an extra: pip install "ragweave[{extra}]"')
        self.extra = extra


class KnowledgeBaseError(UsageError):
    """A knowledge base is missing, foreign, damaged, of a newer format, or being written."""


class StateError(UsageError, LookupError):
    """A node returned a key that its graph's state lacks."""


class ModelError(RagweaveError):
    """A model could not be had or could not answer (no key, no server, unusable settings)."""


class RunTimeoutError(RagweaveError, TimeoutError):
    """A run took longer than its `timeout` option."""
