"""Make the pictures of README and docs: a terminal session that is really run, and two pages.

    make pictures        # or: pip install "ragweave[pictures]" && python docs/pictures.py [session]

Needs Chromium for the pages. The session runs on the embedded model, over the articles that
ragweave brings, in an empty folder.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from cast import animated

ASSETS = Path(__file__).parent / "assets"
COLUMNS, ROWS = 118, 23
QUESTION = "What does BlendFilter blend?"
ASK = '--kb kb --model "extractive?similarity=lexical" -k 2'
SESSION = (
    "ragweave index articles --kb kb --embedding none",
    f'ragweave ask "{QUESTION}" {ASK}',
    f'ragweave ask -c "What does it train?" {ASK}',
)
LONGEST, PIECE = 3.0, 0.12
"""Seconds that a command takes at most in the picture, and between two pieces of what it says."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
PROMPT = "\x1b[1;32m$\x1b[0m "


def record(folder: Path, cast: Path) -> None:
    """Run the session in a terminal, and write what it shows as an asciicast, version 2."""
    head = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "ragweave in a terminal"}
    lines, now = [json.dumps(head)], 0.0

    def say(text: str, after: float) -> None:
        nonlocal now
        now += after
        lines.append(json.dumps([round(now, 3), "o", text]))

    for command in SESSION:
        say(PROMPT, 0.6)
        for letter in command:
            say(letter, 0.028)
        say("\r\n", 0.4)
        for text, after in quickened(run(command, folder)):
            say(text, after)
        say("\r\n", 0.1)
    say(PROMPT, 0.6)
    cast.write_text("\n".join(lines) + "\n", "utf-8")


def quickened(said: Iterable[tuple[str, float]]) -> Iterator[tuple[str, float]]:
    """Yield what a command wrote in at most `LONGEST` seconds, in few pieces: nothing is left out."""
    listed = list(said)
    speed = min(1.0, LONGEST / sum(after for _, after in listed))
    held, waited = "", 0.0
    for text, after in listed:
        if held and waited >= PIECE:
            yield held, waited
            held, waited = "", 0.0
        held, waited = held + text, waited + after * speed
    yield held, waited


def run(command: str, folder: Path) -> Iterator[tuple[str, float]]:
    """Run a command in a pseudo-terminal; yield what it writes, and the seconds since the last."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    words = [sys.executable, "-W", "ignore", "-m", *shlex.split(command)]
    with subprocess.Popen(
        words, cwd=folder, env=environment(folder), stdin=slave, stdout=slave, stderr=slave
    ) as process:
        os.close(slave)
        before = time.monotonic()
        while True:
            ready, _, _ = select.select([master], [], [], 0.1)
            if ready:
                try:
                    read = os.read(master, 65536)
                except OSError:  # Linux says so when the other side has closed
                    break
                if not read:
                    break
                moment = time.monotonic()
                yield read.decode("utf-8", "replace"), moment - before
                before = moment
            elif process.poll() is not None:
                break
    os.close(master)
    if process.returncode:
        raise SystemExit(f"{command}: exit code {process.returncode}")


def environment(folder: Path) -> dict[str, str]:
    """Return an environment that says nothing of this machine."""
    return {
        **os.environ,
        "TERM": "xterm-256color",
        "COLUMNS": str(COLUMNS),
        "LINES": str(ROWS),
        "RAGWEAVE_HISTORY": str(folder / ".conversation.json"),
        "HF_HUB_OFFLINE": "1",
    }


def trace_page(folder: Path) -> Path:
    """Write the page of a run."""
    ask = ["ask", QUESTION, "--kb", "kb", "--model", "extractive?similarity=lexical", "--trace-html", "run.html"]
    subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "ragweave", *ask],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return folder / "run.html"


def photograph(page: Path, out: Path, size: tuple[int, int], *, dark: bool = False) -> None:
    """Take a picture of a page, in few colours, so that it stays small."""
    from PIL import Image

    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise SystemExit(f"no browser found: {', '.join(BROWSERS)}")
    width, height = size
    with tempfile.TemporaryDirectory() as profile:
        shot = Path(profile) / "shot.png"
        words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        words += ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if dark else []
        words += [f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        words += ["--force-device-scale-factor=1.5", f"--screenshot={shot}", page.as_uri()]
        subprocess.run(words, check=True, stderr=subprocess.DEVNULL, timeout=120)
        with Image.open(shot) as image:
            few = image.convert("RGB").quantize(128, dither=Image.Dither.NONE)
            few.save(out, optimize=True)


def main(wanted: list[str]) -> None:
    """Record the session, and unless it alone is asked for, make the pictures of the page."""
    from ragweave.corpus import corpus_path

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        shutil.copytree(corpus_path(), folder / "articles")
        record(folder, ASSETS / "session.cast")
        (ASSETS / "session.svg").write_text(animated(ASSETS / "session.cast"), "utf-8")
        if "session" in wanted:
            return
        page = trace_page(folder)
        photograph(page, ASSETS / "trace.png", (1180, 1000))
        photograph(page, ASSETS / "trace-dark.png", (1180, 1000), dark=True)


if __name__ == "__main__":
    main(sys.argv[1:])
