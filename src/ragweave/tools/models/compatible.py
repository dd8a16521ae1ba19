"""The client of OpenAI-compatible servers, in what they differ from OpenAI's own."""

from __future__ import annotations

from typing import Any, ClassVar

from langchain_openai import ChatOpenAI


class CompatibleChatOpenAI(ChatOpenAI):
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
