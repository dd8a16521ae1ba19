"""The last conversation, kept between commands: `ragweave ask -c` and `ragweave chat -c` go on from it.

It is one JSON file in the user's state folder. `RAGWEAVE_HISTORY` names another file; `off` keeps
nothing.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragweave.errors import UsageError
from ragweave.tools.files import parse_json
from ragweave.tools.state_folder import state_folder

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

    from ragweave.graphs import ChatGraph, CompiledGraph

VARIABLE = "RAGWEAVE_HISTORY"
OFF = "off"


def conversation_file() -> Path | None:
    """Return the file of the last conversation; None where none is to be kept."""
    named = os.environ.get(VARIABLE, "")
    if named:
        return None if named == OFF else Path(named)
    folder = state_folder()
    return folder and folder / "conversation.json"


def read_conversation() -> list[BaseMessage]:
    """Return the messages of the last conversation.

    Raises:
        UsageError: There is none, or its file cannot be read.
    """
    from langchain_core.messages import messages_from_dict

    path = conversation_file()
    try:
        if path is not None and path.exists():
            return messages_from_dict(parse_json(path.read_text("utf-8"))["messages"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path} does not hold a conversation ({type(error).__name__}): delete it"
        ) from error
    raise UsageError(
        "there is no conversation to go on with: ask first without -c"
        + (f" ({VARIABLE}={OFF} keeps none)" if path is None else "")
    )


def keep_conversation(messages: Sequence[BaseMessage]) -> None:
    """Write the conversation, for its user's eyes alone; where that fails, say so and go on."""
    from langchain_core.messages import messages_to_dict

    from ragweave.tools.files import write_atomic

    path = conversation_file()
    if path is None:
        return
    text = json.dumps({"messages": messages_to_dict(messages)}, ensure_ascii=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(0o600)
        if path.is_file():  # no device, such as /dev/null
            path.chmod(0o600)  # which a write keeps, so that nobody else can read meanwhile
        write_atomic(path, text.encode("utf-8", "replace"))
    except OSError as error:
        reason = error.strerror or str(error)
        sys.stderr.write(
            f"ragweave: the conversation is not kept: {path}: {reason} ({VARIABLE}={OFF})\n"
        )


def message_of(result: Mapping[str, Any]) -> AIMessage:
    """Return a method's output as the message that a conversation goes on from."""
    from ragweave.tools.footnotes import cited_message

    return cited_message(result["answer"], result["passages"], result.get("citations") or [])


def conversation(graph: CompiledGraph, models: Mapping[str, Any]) -> ChatGraph:
    """Return a conversation over a method.

    The answering model restates follow-ups; where it is a trained generator, which can't, the proxy
    does, if there is one that can.

    Args:
        graph: The method.
        models: The models that it was built with, opened, by `build_graph`'s arguments.
    """
    from ragweave.graphs.chat import chat_over, restater_of

    return chat_over(graph, restater_of(models["model"], models.get("proxy")))
