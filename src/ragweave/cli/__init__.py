"""The command line. `run` is the entry point of the `ragweave` script."""

from __future__ import annotations

import os
import sys


def run() -> None:
    """Run the command line; Ctrl-C ends it with one line, even while modules are being imported."""
    try:
        from ragweave.cli.main import run as run_main

        run_main()
    except KeyboardInterrupt:
        sys.stderr.write("ragweave: stopped\n")
        sys.stderr.flush()
        os._exit(130)
