"""How long `import ragweave` and `ragweave --help` take, and what they must not load.

    python benchmarks/import_time.py

Goals: at most 0.3 s and 0.6 s, both without torch, chromadb, openai. Each is timed in fresh
processes beside a bare `python -c pass`; the best of several is reported, and its ratio to the bare
start. Writes `benchmarks/results/import_time.json`; exits with 1 where a goal is missed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results" / "import_time.json"
HEAVY = ("torch", "chromadb", "openai", "langchain_openai", "sentence_transformers", "transformers")
REPEATS = 7

BARE = "pass"
IMPORT = "import ragweave"
HELP = "import sys; sys.argv = ['ragweave', '--help']\nfrom ragweave.cli.main import run\nrun()"
GOALS = {"import ragweave": 0.3, "ragweave --help": 0.6}


def seconds(code: str) -> float:
    """Return the best wall time of a fresh interpreter that runs `code`."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return min(times)


def loaded(code: str) -> list[str]:
    """Return the heavy modules that `code` loads."""
    listing = f"print('LOADED', *[one for one in {HEAVY!r} if one in sys.modules])"
    script = f"import sys\ntry:\n    exec({code!r})\nfinally:\n    {listing}"
    run = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return run.stdout.rpartition("LOADED")[2].split()


def main() -> int:
    bare = seconds(BARE)
    found: dict[str, dict[str, Any]] = {
        name: {
            "seconds": (took := seconds(code)),
            "by_bare_start": took / bare,
            "loads": loaded(code),
        }
        for name, code in {"import ragweave": IMPORT, "ragweave --help": HELP}.items()
    }
    misses = [name for name, one in found.items() if one["seconds"] > GOALS[name] or one["loads"]]
    table = Table("what", "seconds", "by bare start", "goal", "heavy modules", title="Import time")
    table.add_row("python -c pass", f"{bare:.3f}", "1.0", "", "")
    for name, one in found.items():
        heavy = ", ".join(one["loads"]) or "none"
        ratio = f"{one['by_bare_start']:.1f}"
        table.add_row(name, f"{one['seconds']:.3f}", ratio, str(GOALS[name]), heavy)
    console = Console()
    console.print(table)
    for name in misses:
        console.print(f"[red]missed[/red] {name}")
    RESULTS.parent.mkdir(exist_ok=True)
    report = {"goals": GOALS, "bare_seconds": bare, "found": found, "missed": misses}
    RESULTS.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 1 if misses else 0


if __name__ == "__main__":
    raise SystemExit(main())
