"""The app, driven as its page drives it, without a socket: `pytest`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import app
import httpx


async def requested(method: str, path: str, **more: Any) -> httpx.Response:
    """Send one request to the app."""
    transport = httpx.ASGITransport(app.web)
    async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
        return await client.request(method, path, **more)


def test_it_answers_with_a_quote() -> None:
    """The answer names the file that it comes from."""
    asked = {"question": app.TRY[0], "thread": "test"}
    reply = asyncio.run(requested("POST", "/ask", json=asked))
    answer = json.loads(reply.text.rpartition("event: answer\ndata: ")[2])
    assert answer["status"] == "answered"
    assert any(part.get("marks") for part in answer["parts"])
    assert answer["sources"][0]["place"] == "about.md"


def test_the_page_is_there() -> None:
    """The page has the questions to begin with."""
    assert app.TRY[0] in asyncio.run(requested("GET", "/")).text
