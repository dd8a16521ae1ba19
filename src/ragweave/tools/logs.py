"""What the command line writes of the log: warnings, with -v what happens, with -vv every call.

A process that helps a command writes the same (`verbosity`, `log_to_stderr`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from ragweave.tools.text.plain import plain

_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


class PlainFormatter(logging.Formatter):
    """One line a record, without secrets and control characters; a traceback only below it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's line."""
        from ragweave.tools.text.secrets import without_secrets

        return plain(without_secrets(super().format(record)))


@contextmanager
def log_to_stderr(verbosity: int) -> Iterator[None]:
    """Write the log of `ragweave` to standard error, as long as a command runs.

    Args:
        verbosity: 0: warnings; 1: also what happens; 2 or more: also each call and its seconds.
    """
    handler = logging.StreamHandler()
    said = "%(message)s" if not verbosity else "%(asctime)s %(levelname)s %(name)s: %(message)s"
    handler.setFormatter(PlainFormatter(said, "%H:%M:%S"))
    logger = logging.getLogger("ragweave")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(_LEVELS[min(verbosity, 2)])
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def verbosity() -> int | None:
    """Return how much of the log is written to standard error here; None: nothing."""
    logger = logging.getLogger("ragweave")
    if not any(isinstance(one.formatter, PlainFormatter) for one in logger.handlers):
        return None
    return max((at for at, level in enumerate(_LEVELS) if level >= logger.level), default=0)
