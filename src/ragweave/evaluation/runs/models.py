"""The chat models of a run, opened by their specs."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from ragweave.tools.models import ChatModel, chat_model


@asynccontextmanager
async def models_of(
    specs: Mapping[str, str], given: Mapping[str, ChatModel]
) -> AsyncIterator[dict[str, ChatModel]]:
    """Open a run's models by role; close what was opened for them.

    Models of an OpenAI-compatible server get an aiohttp client where aiohttp is installed: with
    many connections it takes about half the processor time of the usual one.

    Args:
        specs: Spec strings by role.
        given: Models in their place.
    """
    async with AsyncExitStack() as stack:
        yield {role: given.get(role) or await _opened(spec, stack) for role, spec in specs.items()}


async def _opened(spec: str, stack: AsyncExitStack) -> ChatModel:
    model = chat_model(spec)
    if not spec.strip().startswith("openai:") or importlib.util.find_spec("aiohttp") is None:
        return model
    from langchain_openai import ChatOpenAI
    from openai import DefaultAioHttpClient

    if not isinstance(model, ChatOpenAI) or model.http_async_client is not None:
        return model  # it has a client of its own, such as one that tells a password
    if model.openai_proxy is None:
        client = await stack.enter_async_context(DefaultAioHttpClient())
        model.root_async_client = model.root_async_client.with_options(http_client=client)
        model.async_client = model.root_async_client.chat.completions
    return model
