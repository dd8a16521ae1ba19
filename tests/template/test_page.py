"""The page of the app that `ragweave new` makes, in a real browser, with a key and without, wide and narrow."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import run
from tests.openai_server import OpenAIServer
from tests.servers import free_port, wait_for
from tests.tools.knowledge.loaders.made import pdf, shown

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.loopback,
    pytest.mark.skipif(CHROMIUM is None, reason="no browser is installed: chromium"),
    pytest.mark.skipif(find_spec("playwright") is None, reason="the browser's driver is not installed: playwright"),
]
ANSWER = "the files in the folder"


@pytest.fixture(scope="module")
def browser(socket_enabled_for_module: None) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@contextmanager
def app(folder: Path, model: str, keys: str = "") -> Iterator[str]:
    """Run the app in a process of its own; yield its address."""
    port = free_port()
    names = {"RAGWEAVE_METHOD": "concat", "RAGWEAVE_MODEL": model, "APP_KEYS": keys, "PORT": str(port)}
    with subprocess.Popen([sys.executable, "app.py"], cwd=folder, env={**os.environ, **names}) as server:
        try:
            wait_for(port, server)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


@contextmanager
def page_of(browser: Any, url: str, width: int = 1280, scheme: str = "light") -> Iterator[Any]:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    context.set_default_timeout(60_000)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(url)
    yield page
    assert errors == []
    context.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("page") / "my-app"
    assert run("new", str(made)).returncode == 0
    return made


def test_a_reader_asks_checks_rates_adds_a_file_stops_and_comes_back(browser: Any, folder: Path) -> None:
    go = threading.Event()

    def reply(body: Any) -> str:
        if "slowly" in json.dumps(body):
            go.wait(60)
        return ANSWER

    with OpenAIServer(reply) as fake:
        model = f"openai:x?base_url={fake.base_url}&api_key=none"
        with app(folder, model) as url, page_of(browser, url) as page:
            page.click(".tries button")
            page.wait_for_selector("text=Is this right?")
            assert page.inner_text(".reply") == f"{ANSWER}[1]"
            assert page.inner_text(".card h2") == "About this app — about.md"
            assert "The app answers from the files in the folder" in page.inner_text(".card mark")
            page.click("sup button")
            page.wait_for_selector(".card.lit")
            page.click(".thumbs button:has-text('No')")
            page.wait_for_selector(".thumbs .chosen:has-text('No')")
            line = json.loads((folder / "feedback.jsonl").read_text("utf-8"))
            assert (line["answer"], line["thumb"]) == (ANSWER, "down")
            stapler = {"name": "stapler.md", "mimeType": "", "buffer": b"The stapler is in the folder of Varn."}
            page.set_input_files("#files", [stapler, {"name": "x.exe", "mimeType": "", "buffer": b"MZ"}])
            page.wait_for_selector("text=stapler.md: added")
            page.wait_for_selector("text=x.exe: files of this type cannot be read")
            page.wait_for_selector("#status > div:first-child:empty", state="attached")
            assert (folder / "documents" / "stapler.md").exists()
            page.fill("[name=q]", "Please answer slowly.")
            page.press("[name=q]", "Enter")
            page.click("#ask button:has-text('Stop')")
            page.wait_for_selector("text=Stopped.")
            go.set()
        with app(folder, model) as url, page_of(browser, url) as page:  # a new browser knows no thread
            page.wait_for_selector(".tries")
            page.click(".tries button")
            page.wait_for_selector("text=Is this right?")
            page.reload()
            page.wait_for_selector("text=Is this right?")
            assert page.locator(".me").count() == 1
            page.click("#new")
            page.wait_for_selector(".tries")
            assert page.locator(".me").count() == 0


def test_a_click_on_a_quote_shows_it_marked_on_its_page(browser: Any, folder: Path, tmp_path: Path) -> None:
    own, width = tmp_path / "app", 390
    shutil.copytree(folder, own, ignore=shutil.ignore_patterns("documents", "kb", "*.sqlite*"))
    (own / "documents").mkdir()
    rules = own / "documents" / "rules.pdf"
    rules.write_bytes(pdf((shown("Show a lamp at night."), ""), (shown("Dogs are allowed in the cabin."), "")))
    columns = ",".join(f"column number {number}" for number in range(9))
    (own / "documents" / "rents.csv").write_text(f"flat,rent,{columns}\nnorth,900\nsouth,1100\n")
    with app(own, "extractive?similarity=lexical") as url, page_of(browser, url, width) as page:
        page.wait_for_selector(".tries")
        page.fill("[name=q]", "What is the rent of the flat south?")
        page.press("[name=q]", "Enter")
        page.click("mark button")
        page.wait_for_selector("figure td:has-text('south')")
        assert page.locator("figure tr").count() == 3
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.click("#new")
        page.wait_for_selector(".tries")
        page.fill("[name=q]", "Are dogs allowed in the cabin?")
        page.press("[name=q]", "Enter")
        page.click("mark button:has-text('1, page 2')")
        image = page.locator("figure img")
        assert image.evaluate("async image => { await image.decode(); return image.naturalWidth; }") > 500
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.click("mark button")
        page.wait_for_selector("figure", state="detached")
        rules.write_bytes(b"another file")
        page.click("mark button")
        page.wait_for_selector("figcaption:has-text('has changed since it was indexed')")


@pytest.fixture(scope="module")
def locked(folder: Path, socket_enabled_for_module: None) -> Iterator[str]:
    """An app that needs a key."""
    with app(folder, "extractive?similarity=lexical", "right other") as url:
        yield url


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_with_a_key_the_page_asks_for_it_and_fits_its_window(
    browser: Any, locked: str, width: int, scheme: str
) -> None:
    with page_of(browser, locked, width, scheme) as page:
        for key in ("wrong", "right"):
            page.fill("[name=key]", key)
            page.click("#unlock button")
            page.wait_for_selector("text=This key is not valid." if key == "wrong" else ".tries")
        page.click(".tries button")
        page.wait_for_selector("text=Is this right?")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        for name in ("#add", "#new", "[name=q]", ".card", "#ask button"):
            box = page.locator(name).first.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
        ink, paper = (page.evaluate(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor"))
        assert (_light(ink), _light(paper)) == ((False, True) if scheme == "light" else (True, False))


def _light(color: str) -> bool:
    return sum(int(part) for part in color.removeprefix("rgb(").removesuffix(")").split(",")) > 3 * 128
