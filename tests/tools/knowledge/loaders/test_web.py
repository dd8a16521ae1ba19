import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from ragweave.errors import UsageError
from ragweave.tools.knowledge import ingest
from ragweave.tools.knowledge.ingest import clean_url, fetch

pytestmark = pytest.mark.loopback
HTML = {"Content-Type": "text/html"}


@pytest.fixture
def site(socket_enabled):
    pages = {
        "/guide": (200, HTML, b"<p>Whales.</p>"),
        "/old": (301, {"Location": "/guide#top"}, b""),
        "/hop": (301, {"Location": "/host"}, b""),
        "/host": (200, HTML, None),
        "/other": (302, {"Location": "http://other.example/guide"}, b""),
        "/loop": (301, {"Location": "/loop"}, b""),
        "/scan": (200, {"Content-Type": "application/pdf"}, b"%PDF"),
        "/long": (200, HTML, b"a" * 3000),
    }

    class Site(BaseHTTPRequestHandler):
        def do_GET(self):
            status, headers, body = pages.get(self.path, (404, {}, b""))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(self.headers["Host"].encode() if body is None else body)

        def log_message(self, *_):
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    pages["/away"] = (302, {"Location": f"http://localhost:{port}/guide"}, b"")
    yield f"http://127.0.0.1:{port}"
    server.shutdown()
    server.server_close()


def refusal(url):
    with pytest.raises((httpx.HTTPError, ValueError)) as error:
        fetch(url)
    return str(error.value)


def test_pages_and_redirects(site):
    assert fetch(f"{site}/guide") == fetch(f"{site}/old") == (b"<p>Whales.</p>", ".html")
    assert fetch(f"{site}/scan")[1] == ".pdf"


def test_a_redirect_to_a_private_address_is_refused(site):
    assert "private address, localhost" in refusal(f"{site}/away")


def test_a_host_is_resolved_once_and_named_to_its_server(site, monkeypatch):
    names, resolve = [], socket.getaddrinfo

    def answer(host, *args, **options):
        names.append(host)
        return resolve("127.0.0.1", *args, **options)  # a hostile name server's next answer could be another

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    port = site.rpartition(":")[2]
    assert fetch(f"http://pages.example:{port}/hop") == (f"pages.example:{port}".encode(), ".html")
    assert names.count("pages.example") == 1
    assert "private address, other.example" in refusal(f"http://pages.example:{port}/other")


@pytest.mark.parametrize(("path", "reason"), [("/none", "404"), ("/loop", "redirects")])
def test_refusals(site, path, reason):
    assert reason in refusal(site + path)


def test_bounds(site, monkeypatch):
    monkeypatch.setattr(ingest, "PAGE_BYTES", 1000)
    assert "longer than 1000" in refusal(f"{site}/long")


def test_addresses():
    assert clean_url("https://example.org/a#b") == "https://example.org/a"
    for url in ("ftp://example.org", "example.org", "https://me:secret@example.org"):
        with pytest.raises(UsageError):
            clean_url(url)
