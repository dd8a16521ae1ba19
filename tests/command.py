"""The command line as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

Run = Callable[..., subprocess.CompletedProcess[str]]
COMMAND = [sys.executable, "-c", "from ragweave.cli import run; run()"]
LEXICAL = ("--model", "extractive?similarity=lexical")
