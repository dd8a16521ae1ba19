"""The client of OpenAI-compatible servers that know a reply's limit by its first name alone."""

from __future__ import annotations

from typing import Any

import langchain_openai

from ragweave.tools.models.served_context import is_openai_host
from ragweave.tools.models.thinking import is_openai_reasoner


class ChatOpenAI(langchain_openai.ChatOpenAI):
    """LangChain's client, whose requests name the limit of a reply `max_tokens`.

    LangChain's own says `max_completion_tokens`, which OpenAI has put in its place: Ollama and the
    server of llama-cpp-python pass that over, and Mistral's refuses it. The class has the name of
    its base, by which traces, caches and serialised models know it.
    """

    def _get_request_payload(
        self, input_: Any, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        payload: dict[str, Any] = super()._get_request_payload(input_, stop=stop, **kwargs)
        if "max_completion_tokens" in payload:
            payload["max_tokens"] = payload.pop("max_completion_tokens")
        return payload


def client_for(name: str, url: str) -> type[langchain_openai.ChatOpenAI]:
    """Return the client's class for a model.

    OpenAI's models that reason refuse `max_tokens`, also behind a proxy that hands it on.

    Args:
        name: The model's name.
        url: The server's address; "": OpenAI's own.
    """
    own = not url or is_openai_host(url)
    return langchain_openai.ChatOpenAI if own or is_openai_reasoner(name) else ChatOpenAI
