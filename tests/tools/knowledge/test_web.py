"""Web pages: fetched within bounds, and not from private hosts by a redirect."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragweave.errors import UsageError
from ragweave.tools.knowledge import KnowledgeBase, Settings, web
from ragweave.tools.knowledge.passages import UnreadableError

asked: list[str] = []


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        asked.append(self.headers["Host"].partition(":")[0] + self.path)
        port = self.server.server_address[1]
        if self.path in ("/away", "/again"):
            to = f"http://localhost:{port}/page" if self.path == "/away" else "/page"
            self.send_response(302)
            self.send_header("Location", to)
            self.end_headers()
            return
        self.send_response(404 if self.path == "/lost" else 200)
        kind = "image/png" if self.path == "/picture" else "text/html; charset=utf-8"
        self.send_header("Content-Type", kind)
        self.end_headers()
        body = b"<title>Tides</title><main><p>High water is at noon.</p></main>"
        self.wfile.write(body * (400_000 if self.path == "/long" else 1))

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def here() -> Iterator[str]:
    asked.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def kb(tmp_path: Path) -> KnowledgeBase:
    return KnowledgeBase.create(tmp_path / "kb", settings=Settings(embedding=None))


@pytest.mark.loopback
def test_pages_are_fetched_and_indexed_once(kb: KnowledgeBase, here: str) -> None:
    assert kb.index_pages(f"{here}/page#top").added == 1
    assert kb.index_pages([f"{here}/page"]).unchanged == 1
    (doc,) = kb.as_retriever(k=1).invoke("high water")
    assert (doc.metadata["title"], doc.metadata["source"]) == ("Tides", f"{here}/page")
    report = kb.index_pages([f"{here}/{name}" for name in ("lost", "picture", "long")])
    reasons = [one.reason for one in report.notices]
    for reason, wanted in zip(reasons, ("404", "image/png", "longer than"), strict=True):
        assert wanted in reason
    assert kb.delete(source=f"{here}/page") == 1


@pytest.mark.loopback
def test_a_redirect_does_not_lead_to_a_private_host(kb: KnowledgeBase, here: str) -> None:
    refused = kb.index_pages(f"{here}/away")
    assert "private" in str(refused.notices[0]) and "localhost/page" not in asked
    assert kb.index_pages(f"{here}/away", allow_private=True).added == 1


@pytest.mark.loopback
def test_a_host_that_changes_its_address_is_refused(
    monkeypatch: pytest.MonkeyPatch, here: str
) -> None:
    public = iter([True, False])  # as if the name had been public when it was first looked up
    monkeypatch.setattr(web, "_is_public", lambda _: next(public))
    with pytest.raises(UnreadableError, match="private"):
        web.fetch(f"{here.replace('127.0.0.1', 'localhost')}/again")


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "https://", "https://me:secret@example.org/", "ftp://example.org"]
)
def test_what_is_no_page_is_refused(kb: KnowledgeBase, url: str) -> None:
    with pytest.raises(UsageError):
        kb.index_pages(url)


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "100.64.0.1", "[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]"]
)
@pytest.mark.loopback
def test_private_addresses_of_every_kind(
    monkeypatch: pytest.MonkeyPatch, here: str, host: str
) -> None:
    monkeypatch.setattr(Handler, "do_GET", lambda self: redirect(self, f"http://{host}/"))
    with pytest.raises(UnreadableError, match="private"):
        web.fetch(f"{here}/start")


def redirect(handler: Handler, to: str) -> None:
    handler.send_response(302)
    handler.send_header("Location", to)
    handler.end_headers()
