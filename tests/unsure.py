"""A scripted chat model that is unsure of chosen words: "Ada~0.3 built it." """

from __future__ import annotations

import math
import re
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from ragweave.testing.scripted import pieces
from tests.scripted import Said, ScriptedChat


class UnsureChat(ScriptedChat):
    """Reports a token a word; `~0.3` behind a word is its probability, otherwise it is 0.99."""

    logprobs: bool | None = None

    def _result(self, said: Said) -> ChatResult:
        if isinstance(said, Exception):
            raise said
        content: list[dict[str, Any]] = []
        for piece in pieces(said):
            word, _, share = piece.partition("~")
            tail = re.sub(r"^[\d.]*\d", "", share)
            content.append(
                {"token": word + tail, "logprob": math.log(_share(share)), "bytes": None}
            )
        text = "".join(one["token"] for one in content)
        told = {"logprobs": {"content": content}}
        message = AIMessage(text, response_metadata=told, usage_metadata=self._usage_metadata())
        return ChatResult(generations=[ChatGeneration(message=message)])


def _share(marked: str) -> float:
    found = re.match(r"[\d.]*\d", marked)
    return float(found.group()) if found else 0.99
