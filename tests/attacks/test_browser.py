"""Pages in a real browser: script planted in any field of a run never runs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from attacks.test_pages import page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=2000", "--dump-dom"),
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


def shown(file: Path, folder: Path) -> str:
    """Return a page's document once its scripts have run."""
    command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={folder / 'profile'}", file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on the PATH")
def test_no_planted_script_runs(tmp_path: Path) -> None:
    harmful, harmless = tmp_path / "harmful.html", tmp_path / "trace.html"
    harmful.write_text(f"<html><body><p>{PLANTED}</p></body></html>", "utf-8")
    assert f'title="{RAN}"' in shown(harmful, tmp_path)
    harmless.write_text(page(PLANTED, tmp_path), "utf-8")
    found = shown(harmless, tmp_path)
    assert f'title="{RAN}"' not in found
    assert "&lt;script&gt;" in found
