"""The `ragweave` command: errors for people, and nothing heavy imported before it is needed."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Annotated, NoReturn

import typer

import ragweave
from ragweave.cli import ask, compare, doctor, index, label, methods, report, study, trace, train
from ragweave.cli import eval as eval_
from ragweave.cli.screen import plain
from ragweave.errors import MissingExtraError, RagweaveError, UsageError

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
app.command("methods")(methods.methods)
app.command("draw")(methods.draw)
app.command("trace")(trace.trace)
app.command("eval")(eval_.evaluate)
app.command("report")(report.report)
app.command("compare")(compare.compare)
app.command("doctor")(doctor.doctor)
app.command("train")(train.train)
app.add_typer(index.app, name="kb")
app.add_typer(train.app, name="part")
app.add_typer(study.app, name="study")
app.add_typer(label.app, name="label")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ragweave {ragweave.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Published retrieval-augmented-generation methods as LangGraph graphs."""


_INTERRUPTED = 130


def run() -> None:
    """Run the command line; `ragweave.cli.roles`, the script's entry point, calls this.

    Exit codes: 0 done, 1 the world failed (no server, a run that took too long), 2 the caller's
    mistake, 130 interrupted.
    """
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except typer.Abort:
        code = _INTERRUPTED
    except RagweaveError as fault:
        _leave(str(fault), 2 if isinstance(fault, UsageError | MissingExtraError) else 1)
    except BrokenPipeError:
        os._exit(0)
    except Exception as fault:  # noqa: BLE001 - the last stop; what is not explained is raised
        _explain_or_raise(fault)
    if code == _INTERRUPTED:  # typer's code for Ctrl-C, which it catches itself
        _leave("stopped", _INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _explain_or_raise(fault: Exception) -> NoReturn:
    """Say a parsing error or a server's fault in a line; raise anything else.

    Typer brings its own copy of click, so its errors are told by what they can do.
    """
    said = getattr(fault, "format_message", None)
    if said is not None:
        command = getattr(getattr(fault, "ctx", None), "command_path", "ragweave")
        _leave(f"{' '.join(said().split())} (see {command} --help)", 2)
    from ragweave.cli.faults import explain
    from ragweave.cli.screen import refused

    denied = refused(fault)
    if denied is not None:
        _leave(denied, 2)
    line = explain(fault)
    if line is None:
        raise fault
    _leave(line, 1)


def _leave(line: str, code: int) -> NoReturn:
    """Say one line and end at once: a call that still runs in a thread is not waited for."""
    with suppress(OSError):  # a full disk, or a pipe that was closed
        sys.stdout.flush()
    sys.stderr.write(f"ragweave: {plain(line)}\n")
    sys.stderr.flush()
    os._exit(code)
