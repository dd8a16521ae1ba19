"""The command line. `run` is the entry point of the `ragweave` script."""

import atexit
import gc
import os
import sys


def run() -> None:
    """Run the command line; Ctrl-C ends it with one line, even while modules are being imported."""
    gc.set_threshold(50_000)  # imports make many objects and little garbage
    atexit.register(gc.freeze)  # or Python searches every object for garbage before it exits
    try:
        from ragweave.cli.main import run as run_main

        run_main()
    except KeyboardInterrupt:
        sys.stderr.write("ragweave: stopped\n")
        sys.stderr.flush()
        os._exit(130)
