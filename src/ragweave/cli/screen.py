"""What a user sees: results and progress on the terminal, files written, errors in one line."""

from __future__ import annotations

import errno
import gc
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ragweave.errors import RagweaveError, UsageError
from ragweave.tools.text.plain import plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from ragweave.evaluation.report import Table


_REFUSALS = frozenset(
    (
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS),
        *(errno.EISDIR, errno.ENOTDIR, errno.ENOENT, errno.ENAMETOOLONG, errno.EIO, errno.EEXIST),
    )
)


@contextmanager
def loading() -> Iterator[None]:
    """Say on a terminal that something is being loaded, and take the line back after.

    No garbage is collected meanwhile: imports leave hardly any, and to look for it among all that
    they make takes a tenth of the time.
    """
    collects = gc.isenabled()
    gc.disable()
    shown = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    if shown:
        sys.stderr.write("loading ...")
        sys.stderr.flush()
    try:
        yield
    finally:
        if collects:
            gc.freeze()
            gc.unfreeze()  # all are of the oldest generation now, which is seldom looked at
            gc.enable()
        if shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def write_file(path: Path, text: str) -> None:
    """Write text as UTF-8, whole or not at all.

    A lone surrogate, which no encoding can write, becomes `?`. A pipe or a device, such as
    `/dev/stdout`, is written to directly.

    Raises:
        UsageError: The folder is missing, or the file cannot be written.
    """
    from ragweave.tools.files import write_atomic

    data = text.encode("utf-8", "replace")
    if not path.parent.is_dir():
        raise UsageError(f"no such folder: {path.parent}")
    try:
        write_atomic(path, data)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error


def refused(error: BaseException) -> str | None:
    """Return one line for an error of a disk or folder, or None for any other error."""
    if not isinstance(error, OSError) or error.errno not in _REFUSALS:
        return None
    reason = error.strerror or str(error)
    return (
        f"{os.fsdecode(error.filename)}: {reason}" if error.filename else f"cannot write: {reason}"
    )


_BY_STATUS = {
    400: "the model server rejected the request (400): {reason}",
    401: "the model server rejected the API key (401): check the key that you set",
    403: "the model server denied access (403): {reason}",
    404: "the model server does not know this model or address (404): {reason}",
    413: "the prompt is too large for the model server (413): lower k or set prompt_tokens",
    429: "the model server is limiting requests (429), even after retries: try again later",
}


def told(error: BaseException) -> str | None:
    """Return what our own error says, or a line on a model server's; None for any other error."""
    return str(error) if isinstance(error, RagweaveError) else explain(error)


def explain(error: BaseException) -> str | None:
    """Return one line about a model server's error, or None for any other error."""
    from ragweave.tools.models.errors import is_transient, status_of

    status = status_of(error)
    if status is not None and status < 400:
        return f"the model server sent an invalid reply: {_reason(error)}"
    if status is not None:
        text = _BY_STATUS.get(status, "the model server failed ({status}): {reason}")
        return text.format(status=status, reason=_reason(error))
    if _in_a_client(error):
        return f"the model server sent a reply that cannot be read: {_reason(error)}"
    if not is_transient(error):
        return None
    return (
        f"the model server cannot be reached: {_reason(error)} (is it running? is the URL right?)"
    )


def _in_a_client(error: BaseException) -> bool:
    """Say whether a provider's client failed on what its server sent (no choices, say)."""
    if not isinstance(error, TypeError | LookupError | ValueError):
        return False
    frames = list(traceback.walk_tb(error.__traceback__))
    home = str(frames[-1][0].f_globals.get("__name__", "")) if frames else ""
    return home.startswith(("openai", "langchain_")) and not home.startswith("langchain_core")


def _reason(error: BaseException) -> str:
    from ragweave.tools.models.errors import server_text
    from ragweave.tools.text.secrets import without_secrets

    text = without_secrets(server_text(error))
    return text if len(text) <= 200 else text[:197] + "…"


def console() -> Console:
    """Return the console for results (standard output)."""
    return _console(stderr=False)


def progress_console() -> Console:
    """Return the console for progress and remarks (standard error)."""
    return _console(stderr=True)


def progress_bar(*more: str) -> Progress:
    """Return a progress bar on standard error, removed when done; silent in a pipe.

    Args:
        more: Texts after the count, such as `loss {task.fields[loss]}`.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    screen = progress_console()
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        *map(TextColumn, more),
        TimeRemainingColumn(),
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
    )


def show_tables(tables: Sequence[Table]) -> None:
    """Print tables of a report."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table as RichTable

    screen = console()
    for table in tables:
        drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, title=escape(table.title))
        drawn.title_justify = "left"
        for index, head in enumerate(table.head):
            drawn.add_column(escape(head), overflow="fold", no_wrap=index == 0)
        for row in table.rows:
            drawn.add_row(*map(escape, row))
        screen.print(drawn)
        for remark in table.remarks:
            screen.print(escape(remark), style="dim")


def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:
            """Raise it: on the command line, standard output itself takes a closed pipe."""
            raise BrokenPipeError

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else 120
    return Screen(stderr=stderr, width=width, highlight=False, soft_wrap=False)


def marked_up(text: str) -> str:
    """Return untrusted text as one line that rich shows as it is."""
    from rich.markup import escape

    return escape(" ".join(plain(text).split()))
