"""OpenAI's models, and those of servers that speak its protocol (extra `openai`)."""

import os
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import urlsplit

from langchain_core.outputs import ChatGenerationChunk
from langchain_openai import ChatOpenAI

from ragweave.errors import UnusableModelError, UsageError
from ragweave.tools.models.roles import ChatModel
from ragweave.tools.text.untrusted import redacted

_TEMPLATE = "chat_template_kwargs"
_BODY = ("top_k", "min_p", "repetition_penalty", _TEMPLATE)
"""Settings that vLLM, llama-server and SGLang take in a request's body, and OpenAI does not."""


class RefusingChatOpenAI(ChatOpenAI):
    """LangChain's client, whose streams keep a refusal: LangChain's own drop it and leave an empty reply."""

    def _convert_chunk_to_generation_chunk(self, chunk: dict[str, Any], *args: Any) -> ChatGenerationChunk | None:
        piece = super()._convert_chunk_to_generation_chunk(chunk, *args)
        choices = chunk.get("choices") or [{}]
        if piece and (refusal := (choices[0].get("delta") or {}).get("refusal")):
            piece.message.additional_kwargs["refusal"] = refusal
        return piece


class CompatibleChatOpenAI(RefusingChatOpenAI):
    """LangChain's client, whose requests call the limit of a reply `max_tokens`.

    LangChain's own says `max_completion_tokens`, which OpenAI has put in its place: Ollama and the server
    of llama-cpp-python ignore that, and Mistral's refuses it. If the last message is the assistant's, vLLM,
    SGLang and llama-server are asked to continue it.
    """

    continues_turn: ClassVar[bool] = True
    """A last message of the assistant's is one that the model goes on with."""

    def _get_request_payload(self, input_: Any, *, stop: list[str] | None = None, **kwargs: Any) -> dict[str, Any]:
        payload: dict[str, Any] = super()._get_request_payload(input_, stop=stop, **kwargs)
        if "max_completion_tokens" in payload:
            payload["max_tokens"] = payload.pop("max_completion_tokens")
        if payload.get("messages") and payload["messages"][-1]["role"] == "assistant":
            body = {"continue_final_message": True, "add_generation_prompt": False}
            payload["extra_body"] = {**body, **(payload.get("extra_body") or {})}
        return payload


def openai_chat(name: str, settings: Mapping[str, Any]) -> ChatModel:
    """Return the chat model of OpenAI, or of the server at the setting `base_url`.

    Raises:
        UsageError: A setting is unknown: the client would send it as it is.
        UnusableModelError: There is neither a key nor an address.
    """
    settings = _with_body(dict(settings))
    fields = ChatOpenAI.model_fields
    if unknown := settings.keys() - fields.keys() - {field.alias for field in fields.values()}:
        raise UsageError(f"'openai' has no setting {min(unknown)!r}")
    url = str(settings.get("base_url") or os.environ.get("OPENAI_API_BASE") or os.environ.get("OPENAI_BASE_URL") or "")
    if url and not url.startswith(("http://", "https://")):
        raise UsageError(f"base_url must begin with http:// or https://, not {redacted(url)}")
    if not (settings.get("api_key") or os.environ.get("OPENAI_API_KEY")):
        if not url:
            raise UnusableModelError(
                "no OpenAI key: set OPENAI_API_KEY, or use a server that needs none "
                f"('openai:{name}?base_url=http://localhost:8000/v1')"
            )
        settings = {"api_key": "none", **settings}
    own = not url or (urlsplit(url).hostname or "").endswith("openai.com")
    return (RefusingChatOpenAI if own else CompatibleChatOpenAI)(model=name, **settings)


def _with_body(settings: dict[str, Any]) -> dict[str, Any]:
    """Put the settings that OpenAI's client does not have into the request's body."""
    body = {name: settings.pop(name) for name in _BODY if name in settings}
    if "thinking" in settings:
        on = settings.pop("thinking")
        body[_TEMPLATE] = {"enable_thinking": on, "thinking": on, **body.get(_TEMPLATE, {})}
    return {**settings, "extra_body": body} if body else settings
