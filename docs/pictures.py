"""Make the pictures of README and docs: a terminal session that is really run, a trace page and a report.

    make pictures        # or: python docs/pictures.py

Needs Chromium for the pages. The session runs with the defaults, over the bundled articles, in an empty folder.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.text import Text

ASSETS = Path(__file__).parent / "assets"
COLUMNS = 116
QUESTION = "With how many queries does BlendFilter search?"
SESSION = (
    "ragweave index articles --kb kb",
    f'ragweave ask "{QUESTION}" --kb kb',
    'ragweave ask -c "And how many model calls does it take?" --kb kb',
)
QUESTIONS = Path(__file__).parent.parent / "tests" / "corpus_questions.jsonl"
METHODS = "direct,concat,concat[k=2],post_fusion,filco"
NOTICE = re.compile("extractive quotes.*")
FONTS = re.compile(r"@font-face \{.*?\}", re.DOTALL)
"""Rich names fonts on a server; the reader's own monospaced font does as well."""


def run(command: str, folder: Path) -> str:
    """Run a command as in a terminal, and return what it prints, without its progress bars."""
    environment = {
        **os.environ,
        "COLUMNS": str(COLUMNS),
        "FORCE_COLOR": "1",
        "RAGWEAVE_HISTORY": str(folder / ".conversation.json"),
        "HF_HUB_OFFLINE": "1",
    }
    words = [sys.executable, "-W", "ignore", "-m", *shlex.split(command)]
    done = subprocess.run(words, cwd=folder, env=environment, text=True, capture_output=True, check=True)
    return "\n".join([done.stdout, *NOTICE.findall(done.stderr)])


def session(folder: Path) -> str:
    """Return the picture of a session, as SVG."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    for command in SESSION:
        console.print(Text.assemble(("$ ", "bold green"), command))
        console.print(Text.from_ansi(run(command, folder).strip()), soft_wrap=False)
        console.print()
    return FONTS.sub("", console.export_svg(title="ragweave", unique_id="session"))


def photograph(page: Path, out: Path) -> None:
    """Take a picture of a page on a desktop, in 256 colours."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        raise SystemExit("no Chromium found")
    with tempfile.TemporaryDirectory() as profile:
        words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1180,1000"]
        words += [f"--user-data-dir={profile}", f"--screenshot={out}", page.as_uri()]
        subprocess.run(words, check=True, stderr=subprocess.DEVNULL, timeout=120)
    with Image.open(out) as picture:
        picture.convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE).save(out, optimize=True)


def main() -> None:
    """Make all pictures."""
    from ragweave.corpus import corpus_path

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        shutil.copytree(corpus_path(), folder / "articles")
        (ASSETS / "session.svg").write_text(session(folder), "utf-8")
        run(f'ragweave ask "{QUESTION}" --kb kb --trace --save run.html', folder)
        photograph(folder / "run.html", ASSETS / "trace.png")
        run(f"ragweave eval jsonl:{QUESTIONS} --kb kb --methods {METHODS} --concurrency 1 --out run", folder)
        photograph(folder / "run" / "report.html", ASSETS / "report.png")


if __name__ == "__main__":
    main()
