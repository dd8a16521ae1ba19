"""The `ragweave` command. A command's module is imported when it is run; errors are one line."""

import logging
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

import ragweave
from ragweave.cli.screen import explain
from ragweave.errors import MissingExtraError, UsageError, did_you_mean
from ragweave.tools.text.untrusted import plain

_COMMANDS = {
    "Ask your documents": {
        "index": ("index:index", "Index files, folders and web pages into a knowledge base."),
        "ask": ("ask:ask", "Answer a question, by one method or by several."),
        "chat": ("chat:chat", "Talk with your documents."),
        "serve": ("serve:serve", "Serve methods by OpenAI's protocol, or as MCP tools."),
        "new": ("serve:new", "Make an app: chat page, documents, tests, langgraph.json."),
    },
    "Compare methods": {
        "methods": ("methods:methods", "List the methods; show one with its options and its graph."),
        "eval": ("runs:evaluate", "Run methods on a data set, and score the answers."),
        "tune": ("tune:tune", "Choose method, search and prompts, and confirm the choice."),
        "why": ("why:why", "Say which stage lost an answer, and what to try."),
        "report": ("runs:report", "Show runs as tables and pages."),
        "reproduce": ("runs:reproduce", "Run a paper's table, and show the paper's numbers beside it."),
    },
    "Train components": {
        "label": ("train:label", "Make training rows from a data set."),
        "train": ("train:train", "Train a judge, rewriter, filter, generator or router."),
    },
    "Help": {"doctor": ("doctor:doctor", "Check the installation, a model, a knowledge base.")},
}
"""Each command's module and function, and what it does, by section."""
_ADDRESS = re.compile(r"auto|local|(?:ray://)?[\w.\-\[\]]+:\d+")
"""An address after `--ray`."""
_INTERRUPTED = 130


class Command(TyperCommand):
    """A command whose `--ray` may stand without an address: typer's own options always take a value."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Insert the address of this machine if none follows."""
        if "--ray" in args:
            at = args.index("--ray") + 1
            if at == len(args) or not _ADDRESS.fullmatch(args[at]):
                args = [*args[:at], "local", *args[at:]]
        return super().parse_args(ctx, args)


class Commands(TyperGroup):
    """The commands, each imported when it is named."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Return the names."""
        del ctx
        return [name for section in _COMMANDS.values() for name in section]

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        """Import a command; raise `UsageError` if there is no command of this name."""
        place = next((section[cmd_name][0] for section in _COMMANDS.values() if cmd_name in section), "")
        if not place and ctx.resilient_parsing:  # the shell asks how to complete a line
            return None
        if not place:
            raise UsageError(f"there is no command {cmd_name!r}: {did_you_mean(cmd_name, self.list_commands(ctx))}")
        module, _, name = place.partition(":")
        function = getattr(import_module(f"ragweave.cli.{module}"), name)
        command = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        command.command(cmd_name, cls=Command)(function)
        return typer.main.get_command(command)

    def format_commands(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write the commands by section, without importing them."""
        del ctx
        for title, section in _COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name, about) for name, (_, about) in section.items()])


app = typer.Typer(name="ragweave", cls=Commands, rich_markup_mode=None, pretty_exceptions_enable=False)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ragweave {ragweave.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    verbose: Annotated[int, typer.Option("--verbose", "-v", count=True, help="Log; -vv logs each call, too.")] = 0,
    otel: Annotated[bool, typer.Option("--otel", help="Send traces to OTEL_EXPORTER_OTLP_ENDPOINT.")] = False,
) -> None:
    """Published retrieval-augmented-generation methods as LangGraph graphs.

    Start with `ragweave index FILES`, then `ragweave ask "A question?"`. `ragweave COMMAND --help` lists the options
    of a command.
    """
    del version  # its callback has shown it
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit
    _log(verbose)
    if otel:
        from ragweave.tools.tracing import instrument

        instrument()


class _PlainFormatter(logging.Formatter):
    """Log lines without secrets and control characters."""

    def format(self, record: logging.LogRecord) -> str:
        from ragweave.tools.text.untrusted import without_secrets

        return plain(without_secrets(super().format(record)))


def _log(verbosity: int) -> None:
    handler = logging.StreamHandler()
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s" if verbosity else "%(message)s"
    handler.setFormatter(_PlainFormatter(form, "%H:%M:%S"))
    logger = logging.getLogger("ragweave")
    logger.handlers[:] = [handler]
    logger.setLevel((logging.WARNING, logging.INFO, logging.DEBUG)[min(verbosity, 2)])


def main(args: Sequence[str] | None = None) -> int:
    """Run a command line, by default the process's own, and return its exit code.

    0: success; 1: an outside failure, such as a missing server; 2: the user's mistake; 130: interrupted.
    """
    try:
        ended = app(args, prog_name="ragweave", standalone_mode=False)
        sys.stdout.flush()
        if ended != _INTERRUPTED:
            return ended if isinstance(ended, int) else 0
        raise KeyboardInterrupt  # typer returned its code for Ctrl-C
    except (typer.Abort, KeyboardInterrupt):
        line, code = "stopped", _INTERRUPTED
    except BrokenPipeError:  # nobody reads any more, as in `ragweave … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1  # as typer does
    except Exception as error:
        line, code = _explained(error)
        if not line:
            raise
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.write(f"ragweave: {plain(line)}\n")
    return int(code)


def _explained(error: Exception) -> tuple[str, int]:
    """Return one line about a mistake or a failure, and the exit code; "" for an unexpected error."""
    if format_message := getattr(error, "format_message", None):  # an error of click, of which typer has a copy
        command = getattr(getattr(error, "ctx", None), "command_path", "ragweave")
        return f"{' '.join(format_message().split())} (see {command} --help)", 2
    mistaken = isinstance(error, UsageError | MissingExtraError) or getattr(error, "filename", None)
    return explain(error) or "", 2 if mistaken else 1


def run() -> NoReturn:
    """Run the process's command line and end the process; `ragweave.cli.run`, the script's entry point, calls this."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # an answer may hold characters that the terminal cannot show
    code = main()
    if tracing := sys.modules.get("ragweave.tools.tracing"):
        tracing.shutdown()  # sends the spans that are left
    if code:
        os._exit(code)  # at once, without waiting for calls that are running in threads
    sys.exit(0)
