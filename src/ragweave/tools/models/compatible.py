"""The client of OpenAI-compatible servers that know a reply's limit by its first name alone."""

from __future__ import annotations

from typing import Any

from langchain_openai import ChatOpenAI


class CompatibleChatOpenAI(ChatOpenAI):
    """LangChain's client, whose requests call the limit of a reply `max_tokens`.

    LangChain's own says `max_completion_tokens`, which OpenAI has put in its place: Ollama and the server
    of llama-cpp-python ignore that, and Mistral's refuses it.
    """

    def _get_request_payload(self, input_: Any, *, stop: list[str] | None = None, **kwargs: Any) -> dict[str, Any]:
        payload: dict[str, Any] = super()._get_request_payload(input_, stop=stop, **kwargs)
        if "max_completion_tokens" in payload:
            payload["max_tokens"] = payload.pop("max_completion_tokens")
        return payload
