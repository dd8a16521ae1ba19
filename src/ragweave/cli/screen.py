"""The terminal: consoles, progress, errors on one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from ragweave.errors import RagweaveError
from ragweave.tools.text.untrusted import plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table


def explain(error: BaseException) -> str | None:
    """Return one line about an error of ragweave, a model server or the file system; None for any other error."""
    from ragweave.tools.models.calls import is_transient, server_text, status_of
    from ragweave.tools.text.untrusted import without_secrets

    if isinstance(error, RagweaveError):
        return without_secrets(str(error))
    reason = without_secrets(server_text(error))
    reason, status = reason if len(reason) <= 200 else reason[:199] + "…", status_of(error) or 0
    if status >= 400:
        return f"the model server answered {status}: {reason}"
    if is_transient(error):
        url = getattr(getattr(error, "request", None), "url", None)
        server = f"the model server {url.scheme}://{url.netloc.decode()}" if url else "a server"
        return f"{server} cannot be reached: {reason} (is it running? is the address right?)"
    if isinstance(error, OSError) and error.errno:
        path = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        return f"{path}{error.strerror or error}"
    return None


def progress_console() -> Console:
    """Return the console for progress and remarks (standard error)."""
    return console(stderr=True)


def console(*, stderr: bool = False) -> Console:
    """Return the console for results (standard output)."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else 120
    return Console(stderr=stderr, width=width, highlight=False)


def table_of(
    heads: Iterable[str], rows: Iterable[Iterable[str]], *, numbers: Collection[str] = (), title: str = ""
) -> Table:
    """Return a table of untrusted texts; the columns of `numbers` are aligned to the right."""
    from rich import box
    from rich.table import Table

    table = Table(title=marked_up(title) or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for at, head in enumerate(heads):
        table.add_column(head, no_wrap=at == 0, overflow="fold", justify="right" if head in numbers else "left")
    for cells in rows:
        table.add_row(*map(marked_up, cells))
    return table


def write_live(text: str) -> None:
    """Write a piece of untrusted text to standard output at once."""
    sys.stdout.write(plain(text))
    sys.stdout.flush()


def progress_bar() -> Progress:
    """Return a progress bar on standard error, removed when done; silent in a pipe."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    screen = progress_console()
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    return Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal)


def plain_line(text: str) -> str:
    """Return untrusted text on one line, without terminal control characters."""
    return " ".join(plain(text).split())


def marked_up(text: str) -> str:
    """Return untrusted text on one line, escaped for rich's markup."""
    from rich.markup import escape

    return escape(plain_line(text))
