"""The app, driven as its page drives it, without a socket: `pytest`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import app
import httpx


async def requested(method: str, path: str, **more: Any) -> httpx.Response:
    """Send one request to the app, which reads the documents first."""
    app.library.start()
    transport = httpx.ASGITransport(app.web)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.request(method, path, **more)


def test_it_answers_with_a_quote() -> None:
    """The answer names the file that it comes from."""
    reply = asyncio.run(requested("POST", "/ask", json={"question": app.TRY[0]}, timeout=300))
    answer = json.loads(reply.text.rpartition("event: answer\ndata: ")[2])
    assert answer["status"] == "answered"
    assert any("about.md" in note["title"] for note in answer["notes"])


def test_the_page_is_there() -> None:
    """The page has the questions to begin with."""
    assert app.TRY[0] in asyncio.run(requested("GET", "/")).text
