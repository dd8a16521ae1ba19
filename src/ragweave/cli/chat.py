"""`ragweave chat`: a conversation over a knowledge base in the terminal.

The last conversation about a knowledge base is stored as a JSON file in the user's state folder; `ragweave ask -c` and
`ragweave chat -c` continue it. `RAGWEAVE_HISTORY` names another file; `off` stores nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ragweave.cli import options
from ragweave.cli.screen import console, explain, plain_line, progress_console
from ragweave.errors import UsageError

if TYPE_CHECKING:
    import asyncio

    from langchain_core.messages import BaseMessage

    from ragweave.cli.options import Setup
    from ragweave.graphs import MethodGraph

HELP = """\
/sources        show the passages of the last answer
/method [NAME]  show the method, or change it
/trace          show the steps of the last answer
/help           show this list
/quit           leave (or Ctrl-D)
Anything else is a question."""


def chat(
    follow_up: options.FollowUp = False,
    kb: options.Kb = options.DEFAULT_KB,
    method: options.Method_ = options.DEFAULT_METHOD,
    model: options.Model = None,
    k: options.K = None,
    retriever: options.Retriever = "auto",
    rerank: options.Rerank = "",
    prefer: options.Prefer = "",
    second_retriever: options.SecondRetriever = "",
    option: options.Option = None,
) -> None:
    """Talk with your documents: follow-up questions, quotes under each answer. /help lists the commands.

    Questions from a pipe are answered one by one. If one of them fails, the exit code is 1.
    """
    import asyncio

    with progress_console().status("loading …"):
        setup = options.Setup.open([method], kb, model, k, retriever, rerank, prefer, second_retriever, option)
        earlier = read_conversation(setup.kb) if follow_up else []
        graph = setup.chat(method)
    setup.show_notice()
    if sys.stdin.isatty():
        progress_console().print(f"{method}. /help lists the commands.", style="dim")
    # One loop for all questions: a model's open connections belong to the loop that made them.
    with asyncio.Runner() as runner:
        talk = Talk(setup, method, graph, earlier, runner)
        talk.run()
    if talk.failed and not sys.stdin.isatty():
        raise typer.Exit(1)


class Talk:
    """A conversation and the run that gave its last answer."""

    def __init__(
        self, setup: Setup, method: str, graph: MethodGraph, messages: list[BaseMessage], runner: asyncio.Runner
    ) -> None:
        self.failed = False
        """Whether a question was not answered."""
        self._setup, self._method, self._graph = setup, method, graph
        self._messages, self._runner = messages, runner
        self._last: tuple[dict[str, Any], Any] | None = None
        """The last output, and the watch that followed its run."""

    def run(self) -> None:
        """Read lines until the user leaves; a mistake or a failed call prints one line, and the conversation goes on."""
        from ragweave.state.passages import encodable
        from ragweave.tools.text.untrusted import plain

        while True:
            try:
                line = encodable(input("› " if sys.stdin.isatty() else "")).strip()
            except EOFError:
                return
            if line in ("/quit", "/exit"):
                return
            try:
                if line.startswith("/"):
                    self._command(*line[1:].split(maxsplit=1))
                elif line:
                    self._ask(line)
            except Exception as error:
                message = explain(error)
                if message is None:
                    raise
                sys.stderr.write(f"ragweave: {plain(message)}\n")
                self.failed |= not line.startswith("/")

    def _command(self, name: str = "", value: str = "") -> None:
        if name in ("sources", "trace"):
            self._show(name)
        elif name == "method":
            if value:
                self._graph, self._method = self._setup.chat(value), value
            typer.echo(self._method)
        elif name == "help":
            typer.echo(HELP)
        else:
            raise UsageError(f"there is no command /{name}: /help lists them")

    def _ask(self, question: str) -> None:
        from langchain_core.messages import HumanMessage
        from rich.text import Text

        from ragweave.cli.show import show_answer
        from ragweave.graphs.watch import Watch

        watch, screen = Watch(), console()
        with progress_console().status(f"{self._method} …") as status:
            values = {"messages": [*self._messages, HumanMessage(question)]}
            result = self._runner.run(watch.follow(self._graph, values, status.update))
        self._messages, self._last = result["messages"], (result, watch)
        if result["question"] != question:
            screen.print(Text(f"({plain_line(result['question'])})", "dim"))
        show_answer(screen, result, watch)
        store_conversation(self._messages, self._setup.kb)

    def _show(self, what: str) -> None:
        from ragweave.cli.show import show_sources, tree

        if self._last is None:
            raise UsageError("nothing has been asked in this conversation yet")
        result, watch = self._last
        if what == "trace":
            console().print(tree(watch.steps))
        elif not result["passages"]:
            raise UsageError("the last answer is not based on any passage")
        else:
            show_sources(console(), result)


def conversation_file(kb: str) -> Path | None:
    """Return the file of the last conversation about a knowledge base; None if conversations are not stored."""
    from ragweave.tools.files import state_folder

    if path := os.environ.get("RAGWEAVE_HISTORY"):
        return None if path == "off" else Path(path)
    place = kb if "://" in kb else str(Path(kb).resolve())
    name = hashlib.sha256(place.encode("utf-8", "replace")).hexdigest()[:16]
    folder = state_folder()
    return folder and folder / f"conversation-{name}.json"


def read_conversation(kb: str) -> list[BaseMessage]:
    """Return the messages of the last conversation about a knowledge base.

    Raises:
        UsageError: There is none, or its file cannot be read.
    """
    from langchain_core.messages import messages_from_dict

    path = conversation_file(kb)
    if path is None or not path.exists():
        raise UsageError(f"there is no conversation about {kb} to continue: ask first without -c")
    try:
        return messages_from_dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} does not hold a conversation ({type(error).__name__}): delete it") from error


def store_conversation(messages: Sequence[BaseMessage], kb: str) -> None:
    """Store the conversation, readable only by its user; if that fails, print a line and go on."""
    from langchain_core.messages import messages_to_dict

    path = conversation_file(kb)
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(0o600)
        path.write_text(json.dumps(messages_to_dict(messages)), "utf-8")
    except OSError as error:
        sys.stderr.write(f"ragweave: the conversation is not stored: {path}: {error.strerror or error}\n")
