"""Errors that ragweave raises for people to read: what was wrong, where, what to do."""

import difflib
import importlib.util
from collections.abc import Iterable


class RagweaveError(Exception):
    """Base of every error that ragweave raises on purpose; its text is one clear line."""


class UsageError(RagweaveError, ValueError):
    """The caller's mistake (unknown method, k < 1, empty question); the CLI exits with 2."""


class PromptTooLongError(UsageError):
    """A prompt does not fit: of a run's questions, that one fails and the others go on."""


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


def need(feature: str, extra: str, *modules: str) -> None:
    """Raise `MissingExtraError` unless these modules are installed."""
    if any(importlib.util.find_spec(name) is None for name in modules):
        raise MissingExtraError(feature, extra)


class KnowledgeBaseError(UsageError):
    """A knowledge base is missing, foreign, damaged, of a newer format, or locked by a writer."""


class ModelError(RagweaveError):
    """A model is not available or could not answer (no key, no server, unusable settings)."""


class RunTimeoutError(RagweaveError, TimeoutError):
    """A run took longer than its `timeout` option."""


class UnusableModelError(ModelError, UsageError):
    """A model file that cannot be used (damaged, not a chat model, too large); exit code 2."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `did you mean 'x'?` with the known name that is closest, else the known names."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names)}"
