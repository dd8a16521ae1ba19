"""A reply as LangChain's messages and chunks."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from ragweave.tools.models.llamacpp.generation import Finished, Piece


def result(finished: Finished, name: str) -> ChatResult:
    """Return a whole reply of the model called `name`."""
    info = _info(finished, name)
    entries = [piece.logprob for piece in finished.pieces if piece.logprob]
    if entries:
        info["logprobs"] = {"content": entries}
    message = AIMessage(
        content="".join(piece.text for piece in finished.pieces) + finished.text,
        additional_kwargs=_thought(finished),
        response_metadata=info,
        usage_metadata=usage(finished),
    )
    return ChatResult(generations=[ChatGeneration(message=message, generation_info=info)])


def chunk(piece: Piece) -> ChatGenerationChunk:
    """Return a bit of a reply."""
    info = {"logprobs": {"content": [piece.logprob]}} if piece.logprob else None
    return ChatGenerationChunk(message=AIMessageChunk(content=piece.text), generation_info=info)


def last_chunk(finished: Finished, name: str) -> ChatGenerationChunk:
    """Return the end of a reply: what was held back, the reason, the counts."""
    message = AIMessageChunk(
        content=finished.text,
        additional_kwargs=_thought(finished),
        usage_metadata=usage(finished),
        chunk_position="last",
    )
    return ChatGenerationChunk(message=message, generation_info=_info(finished, name))


def usage(finished: Finished) -> UsageMetadata:
    """Return the counts; tokens that another call had computed are `cache_read`."""
    return UsageMetadata(
        input_tokens=finished.prompt_tokens,
        output_tokens=finished.reply_tokens,
        total_tokens=finished.prompt_tokens + finished.reply_tokens,
        input_token_details=InputTokenDetails(cache_read=finished.reused_tokens),
    )


def _thought(finished: Finished) -> dict[str, Any]:
    """Return the thinking block under the name that LangChain's packages give it."""
    return {"reasoning_content": finished.thought} if finished.thought else {}


def _info(finished: Finished, name: str) -> dict[str, Any]:
    return {
        "model_name": name,
        "model_provider": "llamacpp",
        "finish_reason": finished.reason,
    }
