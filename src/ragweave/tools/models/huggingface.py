"""Causal Hugging Face models on this machine, by LangChain's pipeline model (extra `hf`)."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

from ragweave.errors import MissingExtraError, UsageError
from ragweave.tools.models.roles import ChatModel
from ragweave.tools.models.weights import model_folder, model_of, tokenizer_of

_GENERATION = ("temperature", "top_p", "top_k", "repetition_penalty")


def huggingface_chat(name: str, settings: Mapping[str, Any]) -> ChatModel:
    """Return the chat model of a folder, or of a hub name that was downloaded.

    Weights are read from safetensors alone, and no code from the folder is run.

    Args:
        name: The folder or hub name.
        settings: `device`, `dtype`, `max_tokens` (512), `temperature`, `top_p`, `top_k`, `repetition_penalty`.
    """
    if importlib.util.find_spec("langchain_huggingface") is None:
        raise MissingExtraError("Hugging Face models", "hf")
    if not name:
        raise UsageError("the model's name is missing: write 'hf:FOLDER'")
    known = (*_GENERATION, "device", "dtype", "max_tokens")
    if unknown := sorted(settings.keys() - set(known)):
        raise UsageError(f"'hf' has no setting {unknown[0]!r}; it has {', '.join(known)}")
    from langchain_huggingface import ChatHuggingFace, HuggingFacePipeline
    from transformers import pipeline

    drawn = {one: settings[one] for one in _GENERATION if one in settings}
    folder = model_folder(name)
    model, tokenizer = (
        model_of(folder, "AutoModelForCausalLM", dtype=settings.get("dtype", "auto")),
        tokenizer_of(folder),
    )
    made = pipeline(
        "text-generation",
        model=model,
        tokenizer=tokenizer,
        device=settings.get("device"),
        max_new_tokens=settings.get("max_tokens", 512),
        do_sample=bool(drawn.get("temperature")),
        return_full_text=False,
        **{one: value for one, value in drawn.items() if value},
    )
    context = getattr(model.config, "max_position_embeddings", None)
    profile = {"structured_output": False, "tool_calling": False, **({"max_input_tokens": context} if context else {})}
    return ChatHuggingFace(llm=HuggingFacePipeline(pipeline=made), tokenizer=tokenizer, model_id=name, profile=profile)
