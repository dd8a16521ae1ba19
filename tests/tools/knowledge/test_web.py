"""Web pages from a server on the loopback, good, slow and deceitful."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ragweave.errors import UsageError
from ragweave.tools.knowledge import KnowledgeBase, Settings
from ragweave.tools.knowledge.decoding import read_html
from ragweave.tools.knowledge.markup import UnreadableError
from ragweave.tools.knowledge.web import Page, clean_url, fetch

pytestmark = pytest.mark.loopback
UMLAUTS = "Zürich, Köln"
GUIDE = "<title>Guide</title><nav>Menu</nav><h1>Guide</h1><p>Whales are mammals.</p>"


class Site(BaseHTTPRequestHandler):
    """Serves `pages`; a test may change them."""

    pages: dict[str, tuple[int, dict[str, str], bytes]]
    stop: threading.Event

    def do_GET(self) -> None:
        if self.path.startswith("/slow"):
            self.wfile.write(b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n")
            self.wfile.write(b"\r\n" if self.path == "/slow-body" else b"")
            while not self.stop.wait(0.05):
                try:
                    self.wfile.write(b"X-Drip: 1\r\n")
                except OSError:
                    return
            return
        status, headers, body = self.pages.get(self.path, (404, {}, b""))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def site(socket_enabled: None) -> Iterator[str]:
    """Start a server, and return its address."""
    html = {"Content-Type": "text/html; charset=utf-8"}
    Site.stop = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    port = server.server_address[1]
    Site.pages = {
        "/guide": (200, html, GUIDE.encode()),
        "/old": (301, {"Location": "/guide#top"}, b""),
        "/latin": (200, {"Content-Type": "text/plain; charset=latin-1"}, b"caf\xe9"),
        "/umlaut": (200, html, f"<meta charset=iso-8859-1><p>{UMLAUTS}".encode()),
        "/quotes": (200, {"Content-Type": "text/html; charset=ISO-8859-1"}, b"<p>\x93So\x94"),
        "/wide": (
            200,
            {"Content-Type": "text/plain; charset=utf-16le"},
            UMLAUTS.encode("utf-16le"),
        ),
        "/odd": (200, {"Content-Type": "text/plain; charset=no-such"}, UMLAUTS.encode()),
        "/ascii": (200, {"Content-Type": "text/plain; charset=US-ASCII"}, UMLAUTS.encode()),
        "/no-ascii": (200, {"Content-Type": "text/plain; charset=us-ascii"}, b"caf\xe9"),
        "/zip": (200, {"Content-Type": "application/zip"}, b"PK"),
        "/long": (200, html, b"x" * 5000),
        "/cut": (200, {**html, "Content-Length": "99"}, b"begun"),
        "/loop": (302, {"Location": "/loop"}, b""),
        "/away": (302, {"Location": f"http://localhost:{port}/guide"}, b""),
        "/inside": (302, {"Location": "http://127.0.0.2:1/"}, b""),
        "/file": (302, {"Location": "file:///etc/passwd"}, b""),
    }
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{port}"
    Site.stop.set()
    server.shutdown()
    server.server_close()


def test_a_page_is_read_after_its_redirects(site: str) -> None:
    assert fetch(f"{site}/old#part") == Page(f"{site}/old", GUIDE.encode(), ".html")
    assert fetch(f"{site}/latin").data.decode("utf-8-sig") == "café"
    assert fetch(f"{site}/guide").file_name == "guide.html"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/umlaut", f"<meta charset=iso-8859-1><p>{UMLAUTS}"),
        ("/quotes", "<p>“So”"),
        ("/wide", UMLAUTS),
        ("/odd", UMLAUTS),
        ("/ascii", UMLAUTS),
        ("/no-ascii", "café"),
    ],
)
def test_the_server_says_what_a_text_is_encoded_in(
    site: str, tmp_path: Path, path: str, text: str
) -> None:
    page = fetch(f"{site}{path}")
    assert page.data.decode("utf-8-sig") == text
    (tmp_path / "a.html").write_bytes(page.data)
    assert read_html(tmp_path / "a.html") == text


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/none", "the server says 404"),
        ("/zip", "of the type application/zip"),
        ("/long", "longer than 4000 bytes"),
        ("/cut", "broke off"),
        ("/loop", "redirects more than 5 times"),
        ("/away", "redirects to localhost, a private address; --allow-private"),
        ("/inside", "a private address|cannot be reached"),
        ("/file", "redirects to what is no web page"),
    ],
)
def test_what_is_refused(site: str, path: str, reason: str) -> None:
    with pytest.raises(UnreadableError, match=reason):
        fetch(f"{site}{path}", most_bytes=4000)


def test_private_redirects_where_they_are_allowed(site: str) -> None:
    assert fetch(f"{site}/away", private=True).data == GUIDE.encode()


@pytest.mark.parametrize("path", ["/slow-head", "/slow-body"])
def test_a_server_that_drips_is_left_in_time(site: str, path: str) -> None:
    began = time.monotonic()
    with pytest.raises(UnreadableError, match=r"took longer than 0\.3 s"):
        fetch(f"{site}{path}", seconds=0.3)
    assert time.monotonic() - began < 20


def test_nobody_there(site: str) -> None:
    with pytest.raises(UnreadableError, match="cannot be reached"):
        fetch("http://127.0.0.1:1/")


@pytest.mark.parametrize("url", ["ftp://a/b", "https://", "http://me:pw@a.org/", "http://[x/"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(UsageError, match=r"is no address|password"):
        clean_url(url)


def test_pages_in_a_knowledge_base(site: str, tmp_path: Path) -> None:
    url = f"{site}/guide"
    with KnowledgeBase.create(tmp_path / "kb", settings=Settings(embedding=None)) as kb:
        report = kb.index_pages([url, f"{url}#again", f"{site}/none"])
        assert (report.added, report.passages) == (1, 1)
        assert [skip.path for skip in report.skipped] == [f"{site}/none"]
        (doc,) = kb.as_retriever().invoke("whales")
        assert (doc.metadata["source"], doc.metadata["title"]) == (url, "Guide")
        assert "Menu" not in doc.page_content
        assert kb.index_pages([url]).unchanged == 1
        Site.pages["/guide"] = (200, {"Content-Type": "text/html"}, b"<p>Whales sing.")
        assert kb.index_pages([url]).changed == 1
        del Site.pages["/guide"]
        assert kb.index_pages([url]).skipped_files == 1  # what was read of it stays
        assert len(kb) == 1
        (tmp_path / "a.txt").write_text("Seals bark.")
        assert kb.index_paths([tmp_path / "a.txt"]).passages == 2
        assert kb.delete_source(url)
        assert len(kb) == 1
