"""Which errors fail a row: those of its model, its server, or the client that speaks to it."""

from __future__ import annotations

import traceback

from ragweave.errors import RagweaveError
from ragweave.tools.models import is_transient, status_of
from ragweave.tools.process_errors import ProcessError

_NAMES = frozenset(
    {
        *("APIError", "OpenAIError", "AnthropicError", "GoogleAPIError", "BotoCoreError"),
        *("ClientError", "HTTPError", "RequestException", "LangChainException"),
        "OutOfMemoryError",
    }
)
"""Base classes of client libraries' errors, by name so that none must be imported."""


def is_model_error(error: BaseException) -> bool:
    """Say whether a row failed by its model, its server, or the client that speaks to it.

    These are errors that ragweave raises on purpose, HTTP errors, timeouts and lost connections,
    the error classes of client libraries, and whatever a LangChain integration raises: some turn
    an error that a server tells in its reply into a plain `ValueError`.
    """
    if type(error) is ProcessError:
        return False  # an error that nobody expected, on a node
    if isinstance(error, RagweaveError) or status_of(error) is not None or is_transient(error):
        return True
    return any(kind.__name__ in _NAMES for kind in type(error).__mro__) or _by_client(error)


def _by_client(error: BaseException) -> bool:
    """Tell whether the frame that raised is one of an integration (`langchain_openai`, …)."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    where = str(frames[-1].f_globals.get("__name__", "")).partition(".")[0] if frames else ""
    return where.startswith("langchain_") and where != "langchain_core"
