"""The last conversation about a knowledge base: `ragweave ask -c` and `ragweave chat -c` continue it.

It is a JSON file in the user's state folder. `RAGWEAVE_HISTORY` names another file; `off` stores nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragweave.errors import UsageError

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

VARIABLE = "RAGWEAVE_HISTORY"


def conversation_file(kb: str) -> Path | None:
    """Return the file of the last conversation about a knowledge base; None if none is stored."""
    from ragweave.tools.files import state_folder

    if named := os.environ.get(VARIABLE):
        return None if named == "off" else Path(named)
    place = kb if "://" in kb else str(Path(kb).resolve())
    name = hashlib.sha256(place.encode("utf-8", "replace")).hexdigest()[:16]
    folder = state_folder()
    return folder and folder / f"conversation-{name}.json"


def read_conversation(kb: str) -> list[BaseMessage]:
    """Return the messages of the last conversation about a knowledge base.

    Raises:
        UsageError: There is none, or its file cannot be read.
    """
    from langchain_core.messages import messages_from_dict

    path = conversation_file(kb)
    if path is None or not path.exists():
        raise UsageError(f"there is no conversation about {kb} to continue: ask first without -c")
    try:
        return messages_from_dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} does not hold a conversation ({type(error).__name__}): delete it") from error


def store_conversation(messages: Sequence[BaseMessage], kb: str) -> None:
    """Write the conversation, readable by its user alone; if that fails, say so and go on."""
    from langchain_core.messages import messages_to_dict

    path = conversation_file(kb)
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(0o600)
        path.write_text(json.dumps(messages_to_dict(messages)), "utf-8")
    except OSError as error:
        sys.stderr.write(f"ragweave: the conversation is not stored: {path}: {error.strerror or error}\n")
