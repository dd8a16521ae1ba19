"""Errors that ragweave raises for users: each says what was wrong, where, and what to do."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a command's help needs no pydantic
    from pydantic import ValidationError


class RagweaveError(Exception):
    """Base of ragweave's errors; the text is one clear line."""


class UsageError(RagweaveError, ValueError):
    """The caller's mistake (unknown method, k < 1, empty question); the CLI exits with 2."""


class PromptTooLongError(UsageError):
    """A prompt does not fit; in a run over many questions, only this question fails."""


class MissingExtraError(RagweaveError, ImportError):
    """A feature needs packages that are not installed; the text says what to install."""

    def __init__(self, feature: str, extra: str) -> None:
        """Name the feature, as the subject of a sentence, and its extra, as in `pip install "ragweave[extra]"`."""
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


class BrokenReplyError(ModelError):
    """A model's provider broke off its reply, each time that it was asked."""


class RunTimeoutError(RagweaveError, TimeoutError):
    """A run took longer than its `timeout` option."""


class UnusableModelError(ModelError, UsageError):
    """A model file that cannot be used (damaged, not a chat model, too large); exit code 2."""


def one_line_of(error: BaseException, max_characters: int = 200) -> str:
    """Return the beginning of an error's text on one line, or its class if it has no text."""
    return " ".join(str(error).split())[:max_characters] or type(error).__name__


def fault_of(error: ValidationError, whole: str = "the file") -> str:
    """Return the first fault of a form, as `place: what is wrong`, without the value there, which may be a key.

    `whole` is the place of a fault of no single field.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"])) or whole
    # Users know neither pydantic's words for an error of ours nor the name of our class.
    message = first["msg"].removeprefix("Value error, ").partition(" or instance of ")[0]
    return f"{place}: {message}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `did you mean 'x'?` with the closest known name, or else the list of known names."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names)}"
