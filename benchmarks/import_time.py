"""How long `import ragweave`, `ragweave --help` and a first answer take, and what they load.

    python benchmarks/import_time.py

Goals: `import ragweave` and `ragweave --help` at most 0.3 s and 0.6 s, both without torch,
chromadb, openai; `ragweave ask` over the bundled articles, with the embedded defaults and with
`--retriever bm25`, at most 1.6 s of CPU and 240 MB, without torch and chromadb. Each is timed in fresh
processes, compiled already, beside a bare `python -c pass`; the best of several is reported, and its
ratio to the bare start. A first answer is also measured in seconds of CPU (all threads) and in peak
memory, the most of all runs. Writes `benchmarks/results/import_time.json`; exits with 1 where a goal
is missed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
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


ASK = ("ask", "What does BlendFilter blend?")
FIRST_ANSWERS = {"ragweave ask": (), "ragweave ask --retriever bm25": ("--retriever", "bm25")}
ANSWER_CPU, ANSWER_MB = 1.6, 240.0
NO_ANSWER_LOADS = ("torch", "chromadb", "sentence_transformers", "transformers", "scipy")
COMPILED = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


@dataclass
class FirstAnswer:
    """What one command cost in processes of its own."""

    seconds: float
    cpu_seconds: float
    peak_mb: float
    loads: list[str]


def run_ragweave(*words: str, code: str = "") -> subprocess.Popen[bytes]:
    script = f"import sys; sys.argv = {['ragweave', *words]!r}\n{code}"
    script += "from ragweave.cli import run\nrun()"
    return subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=COMPILED,
    )


def measured(words: tuple[str, ...]) -> tuple[float, float, float]:
    """Return seconds on the clock, seconds of CPU and peak memory (MB) of one command."""
    start = time.perf_counter()
    process = run_ragweave(*words)
    _, status, used = os.wait4(process.pid, 0)
    took = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit((process.stderr.read() if process.stderr else b"").decode())
    return took, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def first_answer(words: tuple[str, ...]) -> FirstAnswer:
    """Measure a command that answers a question; the first run, which compiles, does not count."""
    names = f"[one for one in {NO_ANSWER_LOADS!r} if one in sys.modules]"
    show = f"import atexit; atexit.register(lambda: print('LOADED', *{names}, file=sys.stderr))\n"
    _, printed = run_ragweave(*words, code=show).communicate()
    loads = printed.decode().rpartition("LOADED")[2].split()
    runs = [measured(words) for _ in range(REPEATS)]
    seconds, cpu, memory = zip(*runs, strict=True)
    return FirstAnswer(min(seconds), min(cpu), max(memory), loads)


def first_answers() -> dict[str, FirstAnswer]:
    """Measure the first answers over a new index of the bundled articles."""
    with TemporaryDirectory() as folder:
        kb = str(Path(folder) / "kb")
        _, printed = run_ragweave("index", "--bundled", "--kb", kb).communicate()
        if not Path(kb).exists():
            raise SystemExit(printed.decode())
        return {name: first_answer((*ASK, "--kb", kb, *more)) for name, more in FIRST_ANSWERS.items()}


def missed_answers(answers: dict[str, FirstAnswer]) -> list[str]:
    return [
        name
        for name, answer in answers.items()
        if answer.cpu_seconds > ANSWER_CPU or answer.peak_mb > ANSWER_MB or answer.loads
    ]


def answers_table(answers: dict[str, FirstAnswer]) -> Table:
    table = Table("command", "seconds", "CPU seconds", "peak MB", "heavy modules")
    table.title = f"First answer (goals: {ANSWER_CPU:g} s of CPU, {ANSWER_MB:g} MB)"
    for name, answer in answers.items():
        heavy = ", ".join(answer.loads) or "none"
        numbers = (f"{answer.seconds:.2f}", f"{answer.cpu_seconds:.2f}", f"{answer.peak_mb:.0f}")
        table.add_row(name, *numbers, heavy)
    return table


def main() -> int:
    bare = seconds(BARE)
    commands: dict[str, dict[str, Any]] = {
        name: {
            "seconds": (took := seconds(code)),
            "by_bare_start": took / bare,
            "loads": loaded(code),
        }
        for name, code in {"import ragweave": IMPORT, "ragweave --help": HELP}.items()
    }
    misses = [name for name, command in commands.items() if command["seconds"] > GOALS[name] or command["loads"]]
    answers = first_answers()
    misses += missed_answers(answers)
    table = Table("what", "seconds", "by bare start", "goal", "heavy modules", title="Import time")
    table.add_row("python -c pass", f"{bare:.3f}", "1.0", "", "")
    for name, command in commands.items():
        heavy = ", ".join(command["loads"]) or "none"
        ratio = f"{command['by_bare_start']:.1f}"
        table.add_row(name, f"{command['seconds']:.3f}", ratio, str(GOALS[name]), heavy)
    console = Console()
    console.print(table)
    console.print(answers_table(answers))
    for name in misses:
        console.print(f"[red]missed[/red] {name}")
    RESULTS.parent.mkdir(exist_ok=True)
    report = {
        "goals": {**GOALS, "first answer": {"cpu_seconds": ANSWER_CPU, "peak_mb": ANSWER_MB}},
        "bare_seconds": bare,
        "found": commands,
        "first_answers": {name: asdict(answer) for name, answer in answers.items()},
        "missed": misses,
    }
    RESULTS.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 1 if misses else 0


if __name__ == "__main__":
    raise SystemExit(main())
