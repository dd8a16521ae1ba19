"""One clear line for the faults of model servers that reach the command line."""

from __future__ import annotations

import traceback

from ragweave.tools.models.errors import is_transient, status_of

_BY_STATUS = {
    400: "the model server refused the request (400): {reason}",
    401: "the model server refused the key (401): check the key that you set",
    403: "the model server forbids this (403): {reason}",
    404: "the model server does not know this model or address (404): {reason}",
    413: "the prompt is too large for the model server (413): lower k or set prompt_tokens",
    429: "the model server asks to slow down (429), also after several tries: try again later",
}


def explain(fault: BaseException) -> str | None:
    """Return one line about a server's fault, or None for a fault that is none of a server."""
    status = status_of(fault)
    if status is not None and status < 400:
        return f"the model server sent no valid reply: {_reason(fault)}"
    if status is not None:
        text = _BY_STATUS.get(status, "the model server failed ({status}): {reason}")
        return text.format(status=status, reason=_reason(fault))
    if _in_a_client(fault):
        return f"the model server sent a reply that cannot be read: {_reason(fault)}"
    if not is_transient(fault):
        return None
    return (
        f"the model server cannot be reached: {_reason(fault)} (is it running, is the URL right?)"
    )


def _in_a_client(fault: BaseException) -> bool:
    """Say whether a provider's client fell over what its server sent (no choices, say)."""
    if not isinstance(fault, TypeError | LookupError | ValueError):
        return False
    frames = list(traceback.walk_tb(fault.__traceback__))
    home = str(frames[-1][0].f_globals.get("__name__", "")) if frames else ""
    return home.startswith(("openai", "langchain_")) and not home.startswith("langchain_core")


def _reason(fault: BaseException) -> str:
    lines = str(fault).split()
    text = " ".join(lines) or type(fault).__name__
    return text if len(text) <= 200 else text[:197] + "…"
