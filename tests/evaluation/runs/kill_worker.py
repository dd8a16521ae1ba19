"""Goes on with a run, in a child process for each line that it reads; prints the child's id.

Everything is imported before the first fork, so that a child is at work at once.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import langchain_openai  # noqa: F401 - imported before the fork
from tests.command import WORKER

from ragweave.evaluation.runs import RunConfig, RunDirectory, evaluate_in_workers, workers

workers.WORKER = WORKER


def tell(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def main() -> None:
    directory, config = RunDirectory(Path(sys.argv[1])), RunConfig(concurrency=int(sys.argv[2]))
    count = int(sys.argv[3])
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            asyncio.run(evaluate_in_workers(directory, config, workers=count))
            os._exit(0)
        tell(child)
        _, status = os.waitpid(child, 0)
        tell(os.waitstatus_to_exitcode(status))


main()
