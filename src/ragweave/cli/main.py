"""The `ragweave` command. Errors are one line; nothing heavy is imported before it is needed."""

from __future__ import annotations

import atexit
import gc
import io
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import Annotated, Any, NoReturn

import typer

import ragweave
from ragweave.cli import (
    ask,
    chat,
    doctor,
    index,
    label,
    methods,
    reproduce,
    serve,
    trace,
    train,
)
from ragweave.cli import eval as eval_
from ragweave.cli import report as report_
from ragweave.cli.runs import RayCommand
from ragweave.cli.screen import explain, refused
from ragweave.errors import MissingExtraError, RagweaveError, UsageError
from ragweave.tools.logs import log_to_stderr
from ragweave.tools.text.plain import plain

app = typer.Typer(
    name="ragweave",
    help="Published retrieval-augmented-generation methods as LangGraph graphs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("index")(index.index)
app.command("ask")(ask.ask)
app.command("chat")(chat.chat)
app.command("serve")(serve.serve)
app.command("mcp")(serve.mcp)
app.command("methods")(methods.methods)
app.command("draw")(methods.draw)
app.command("trace")(trace.trace)
app.command("eval", cls=RayCommand)(eval_.evaluate)
app.command("report")(report_.report)
app.command("reproduce")(reproduce.reproduce)
app.command("label", cls=RayCommand)(label.label)
app.command("compare")(ask.compare)
app.command("doctor")(doctor.doctor)
app.command("train")(train.train)
app.add_typer(index.app, name="kb")
app.add_typer(train.app, name="part")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ragweave {ragweave.__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose", "-v", count=True, help="Log what happens; -vv: each call as well."
        ),
    ] = 0,
    otel: Annotated[
        bool,
        typer.Option(
            "--otel",
            help="Send OpenTelemetry traces to OTEL_EXPORTER_OTLP_ENDPOINT, else localhost:4318.",
        ),
    ] = False,
) -> None:
    """Published retrieval-augmented-generation methods as LangGraph graphs."""
    del version  # typer has shown it
    context.with_resource(log_to_stderr(verbose))
    if otel:
        from ragweave.tools.tracing import instrument

        instrument()


def _end_tracing() -> None:
    """Send the spans that are left, where tracing is on: the process may end without further ado."""
    tracing = sys.modules.get("ragweave.tools.tracing")
    if tracing is not None:
        tracing.shutdown()


_INTERRUPTED = 130
_TERMINATED = 143


class _Stop:
    """Takes SIGTERM as Ctrl-C, so that what is being written is whole or not there."""

    def __init__(self) -> None:
        self.code = _INTERRUPTED
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._terminate)
        if sys.unraisablehook is sys.__unraisablehook__:
            sys.unraisablehook = _silent_interrupt

    def _terminate(self, *_: object) -> NoReturn:
        self.code = _TERMINATED
        raise KeyboardInterrupt


def _silent_interrupt(unraisable: sys.UnraisableHookArgs) -> None:
    """Print what nobody can catch, but for a second Ctrl-C that met a callback of the interpreter."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)


def run() -> None:
    """Run the command line; `ragweave.cli.run`, the script's entry point, calls this.

    Exit codes: 0 success, 1 a failure outside (no server, a timeout), 2 the caller's mistake, 130
    interrupted, 143 terminated.
    """
    _open_closed_streams()
    sys.stdout, sys.stderr = _to_screen(sys.stdout), _to_screen(sys.stderr)
    # Or the interpreter looks for cycles among all that was loaded, for half a second, before it
    # ends; registered first, this comes last.
    atexit.register(gc.freeze)
    stop = _Stop()
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
        _end_tracing()
    except (typer.Abort, KeyboardInterrupt):
        code = _INTERRUPTED
    except RagweaveError as error:
        _leave(str(error), 2 if isinstance(error, UsageError | MissingExtraError) else 1)
    except Exception as error:  # noqa: BLE001 - the last resort; what is not explained is raised
        _explain_or_raise(error)
    if code == _INTERRUPTED:  # typer's code for Ctrl-C, which it catches itself
        _leave("stopped", stop.code)
    sys.exit(code if isinstance(code, int) else 0)


def _open_closed_streams() -> None:
    """Put the null device where a stream was closed before the start (`ragweave … >&-`).

    Python has None there, and the next file opened would get the stream's number.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115 - for the process
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115


class _Screen(io.FileIO):
    """What a command shows, and goes on where nobody reads it any more (`ragweave … | head`).

    What it still has to write, to files of its own, is written; a pipe or socket that breaks
    elsewhere stays an error.
    """

    def __init__(self, stream: io.TextIOWrapper) -> None:
        """Write to the file of a standard stream, which stays open."""
        super().__init__(stream.fileno(), "w", closefd=False)
        self._stream = stream

    def write(self, data: Any, /) -> int:
        """Write to the screen; to nowhere once its pipe is closed."""
        try:
            return super().write(data)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(data)


def _to_screen(stream: Any) -> Any:
    """Return a standard stream as a screen; a terminal, which nobody closes, as it is."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.reconfigure(errors="replace")  # an answer may hold what ASCII has no sign for
    try:
        screen = None if stream.isatty() else _Screen(stream)
    except OSError:  # it is no file, as in a notebook
        screen = None
    if screen is None:
        return stream
    return io.TextIOWrapper(
        screen if stream.write_through else io.BufferedWriter(screen),
        encoding=stream.encoding,
        errors="replace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _explain_or_raise(error: Exception) -> NoReturn:
    """Print a parsing error, or an error of a disk or server, in one line; raise anything else.

    Typer has its own copy of click, so click's errors are recognised by their methods.
    """
    format_message = getattr(error, "format_message", None)
    if format_message is not None:
        command = getattr(getattr(error, "ctx", None), "command_path", "ragweave")
        _leave(f"{' '.join(format_message().split())} (see {command} --help)", 2)
    denied = refused(error)
    if denied is not None:
        _leave(denied, 2)
    line = explain(error)
    if line is None:
        raise error
    _leave(line, 1)


def _leave(line: str, code: int) -> NoReturn:
    """Print one line and exit at once, without waiting for calls still running in threads."""
    from ragweave.tools.text.secrets import without_secrets

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C changes nothing more
    with suppress(OSError):  # a full disk, or a pipe that was closed
        sys.stdout.flush()
    _end_tracing()
    with suppress(OSError):
        sys.stderr.write(f"ragweave: {plain(without_secrets(line))}\n")
        sys.stderr.flush()
    os._exit(code)
