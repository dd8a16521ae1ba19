"""Pages in a real browser: script planted in any text of a run or a chat never runs."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langgraph.checkpoint.memory import InMemorySaver
from ragweave.evaluation.runs import claim_directory, parse_systems, plan
from tests.evaluation.files import write_lines
from tests.evaluation.towns import run, towns
from tests.scripted import ListRetriever, ScriptedChat, Seen

from attacks.test_pages import found, page
from ragweave import build_chat
from ragweave.errors import ModelError
from ragweave.evaluation.report import read_runs, write_report

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
CHAT = Path(__file__).parents[2] / "examples" / "chat_app.py"
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--dump-dom"),
)
RAN = "planted-script-ran"
RUNS = f"document.documentElement.setAttribute('title','{RAN}')"
PLANTED = "".join(
    (
        f"</script><script>{RUNS}</script>",
        f'"><img src=x onerror="{RUNS}"><svg onload="{RUNS}">',
        f'</style></title></svg></pre><script>{RUNS}</script><iframe src="javascript:{RUNS}">',
        f"' onmouseover='{RUNS}' autofocus onfocus='{RUNS}",
        f"--><script>{RUNS}</script>]]><script>{RUNS}</script>",
    )
)

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on the PATH")


def shown(address: str, folder: Path, wait: int = 2000) -> str:
    """Return a page's document once its scripts have run."""
    profile = f"--user-data-dir={folder / 'profile'}"
    command = [str(CHROMIUM), *FLAGS, f"--virtual-time-budget={wait}", profile, address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


@needs_browser
def test_no_planted_script_runs(tmp_path: Path) -> None:
    harmful, harmless = tmp_path / "harmful.html", tmp_path / "trace.html"
    harmful.write_text(f"<html><body><p>{PLANTED}</p></body></html>", "utf-8")
    assert f'title="{RAN}"' in shown(harmful.as_uri(), tmp_path)
    harmless.write_text(page(PLANTED, tmp_path), "utf-8")
    seen = shown(harmless.as_uri(), tmp_path)
    assert f'title="{RAN}"' not in seen
    assert "&lt;script&gt;" in seen


def report(folder: Path, text: str) -> list[Path]:
    """Write the report of a run in which the data, the replies and the errors say a text."""
    folder.mkdir()

    def says(seen: Seen) -> str:
        if "Lom" in seen.text:
            raise RuntimeError(text)
        return f"So the answer is {text}"

    rows = []
    for line in towns(folder, 3).read_text("utf-8").splitlines():
        row = json.loads(line)
        passages = [
            {**one, "title": f"{one['title']} {text}", "text": f"{one['text']} {text}"} for one in row["passages"]
        ]
        given = {"question": f"{row['question']} {text}", "passages": passages}
        rows.append({**row, **given, "id": f"{row['id']} {text}", "answers": [text]})
    data = write_lines(folder / "rows.jsonl", *rows)
    systems = parse_systems("concat[k=2],react[max_steps=2]")
    directory = claim_directory(folder / "run", plan(f"jsonl:{data}", systems, {"answer": "m"}))
    run(directory, ScriptedChat(replies=says))
    out = folder / "report"
    write_report(out, read_runs([directory.path]), plots=False)
    return sorted(out.rglob("*.html"))


def test_a_report_holds_no_part_of_the_attack(tmp_path: Path, trials: Callable[[int], None]) -> None:
    plain, attacked = report(tmp_path / "plain", "plain"), report(tmp_path / "bad", PLANTED)
    assert len(plain) == len(attacked) == 4
    for calm, bad in zip(plain, attacked, strict=True):
        seen = found(bad.read_text("utf-8"))
        assert "script" not in seen.tags
        assert seen.tags == found(calm.read_text("utf-8")).tags
        assert all(re.match(r"a href=[\w./-]+\.html$", one) for one in seen.bad), seen.bad
    trials(len(attacked) - 1)


@needs_browser
@pytest.mark.attack
def test_no_script_planted_in_a_report_runs(tmp_path: Path, trials: Callable[[int], None]) -> None:
    pages = report(tmp_path / "bad", PLANTED)
    for one in pages:
        seen = shown(one.as_uri(), tmp_path)
        assert f'title="{RAN}"' not in seen
        assert "&lt;script&gt;" in seen
    trials(len(pages) - 1)


@contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve an app on this machine."""
    uvicorn = pytest.importorskip("uvicorn", reason='the example needs: "ragweave[examples]"')
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until = time.monotonic() + 30
        while not server.started and time.monotonic() < until:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)


@needs_browser
@pytest.mark.loopback
def test_no_script_planted_in_a_chat_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Question, answer, title and error are shown as the page shows them, and stay text."""
    responses = pytest.importorskip("fastapi.responses", reason='needs "ragweave[examples]"')
    spec: Any = importlib.util.spec_from_file_location("attacked_chat_app", CHAT)
    example = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, example)
    spec.loader.exec_module(example)
    docs = [Document("Varn has a bridge.", id="a", metadata={"title": PLANTED})]
    said = iter([f"So the answer is {PLANTED}"])

    def says(_: Seen) -> str:
        reply = next(said, None)
        if reply is None:
            raise ModelError(PLANTED)
        return reply

    chat = build_chat(
        "concat",
        model=ScriptedChat(replies=says),
        retriever=ListRetriever(documents=docs),
        checkpointer=InMemorySaver(),
    )
    app = example.create_app(chat)
    ask = (
        # Fetches, not timers: the browser's clock stands still while one is under way.
        "const answered = async () => { while (form.elements[1].disabled) await fetch('/tick'); };"
        "const put = (text) => { document.forms[0].q.value = text;"
        " document.forms[0].requestSubmit(); };"
        f"(async () => {{ put({json.dumps(PLANTED).replace('<', chr(92) + 'u003c')});"
        " await answered(); put('And then?'); await answered();"
        " document.body.append('all ' + 'was said'); })();"
    )

    @app.get("/tick")
    async def tick() -> None:
        await asyncio.sleep(0.05)

    @app.get("/driven", response_class=responses.HTMLResponse)
    async def driven() -> str:
        return f"{example.PAGE}<script>{ask}</script>"

    with served(app) as address:
        seen = shown(f"{address}/driven", tmp_path, wait=20_000)
    assert "all was said" in seen
    assert seen.count(f"&lt;script&gt;{RUNS}") >= 9  # three in each of four texts, but what an answer loses
    assert f'title="{RAN}"' not in seen
