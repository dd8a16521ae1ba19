"""Errors that cross from one process to another: as JSON values there, raised again here."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import TypedDict

from ragweave.errors import (
    KnowledgeBaseError,
    ModelError,
    RagweaveError,
    RunTimeoutError,
    UnusableModelError,
    UsageError,
)
from ragweave.tools.models import status_of
from ragweave.tools.text.secrets import without_secrets


class PlainError(TypedDict):
    """An error as JSON values."""

    kind: str
    """The name of its class."""
    text: str
    """What it says, on one line and without secrets."""
    status: int | None
    """The HTTP status of a model server's error."""
    trace: str
    """The traceback of an error that nobody raised on purpose, else ""."""


class ProcessError(RagweaveError):
    """An error of another process that has no class of its own here."""

    def __init__(self, text: str, status: int | None = None) -> None:
        """Keep the text, and the HTTP status of a model server's error."""
        super().__init__(text)
        self.status_code = status


KINDS: Mapping[str, type[RagweaveError]] = {
    "KnowledgeBaseError": KnowledgeBaseError,
    "MissingExtraError": UsageError,
    "ModelError": ModelError,
    "RunTimeoutError": RunTimeoutError,
    "UnusableModelError": UnusableModelError,
    "UsageError": UsageError,
}
"""Errors that are raised again as they were."""


def plain_error(error: BaseException) -> PlainError:
    """Return an error as JSON values, with the traceback of an unexpected one."""
    status = status_of(error)
    expected = isinstance(error, RagweaveError) or status is not None
    trace = "" if expected else "".join(traceback.format_exception(error))
    text = without_secrets(" ".join(str(error).split()))
    return {"kind": type(error).__name__, "text": text, "status": status, "trace": trace}


def raised_again(
    error: PlainError,
    where: str,
    kinds: Mapping[str, type[RagweaveError]] = KINDS,
    other: type[ProcessError] = ProcessError,
) -> RagweaveError:
    """Return what to raise for an error of another process.

    Args:
        error: What `plain_error` returned there.
        where: The process, as the text of an error without a class of its own names it.
        kinds: Classes by name.
        other: The class of errors that `kinds` has not.
    """
    kind = kinds.get(error["kind"])
    if kind is not None:
        return kind(error["text"])
    made = other(f"{where}: {error['kind']}: {error['text']}", error["status"])
    if error["trace"]:
        made.add_note(error["trace"])
    return made
