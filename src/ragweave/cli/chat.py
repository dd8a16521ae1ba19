"""`ragweave chat`: a conversation over a knowledge base in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import TextIOWrapper
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragweave.cli import options
from ragweave.errors import UsageError

if TYPE_CHECKING:
    import asyncio

    from langchain_core.messages import BaseMessage

    from ragweave.cli.watch import Watch
    from ragweave.graphs import ChatGraph

PROMPT = "› "
HELP = """\
/sources        the passages behind the last answer
/method [NAME]  the method in use, or another one from here on
/trace          the steps of the last answer
/help           this list
/quit           leave (or Ctrl-D)
Anything else is a question."""


def chat(
    follow_up: Annotated[
        bool, typer.Option("--continue", "-c", help="Go on with the last conversation.")
    ] = False,
    kb: options.Kb = None,
    method: options.Method = "concat_pf",
    model: options.Model = "extractive",
    proxy: options.Proxy = None,
    judge: options.Judge = None,
    rewriter: options.Rewriter = None,
    filter_model: options.FilterModel = None,
    k: options.K = None,
    retriever: options.Retriever = "auto",
    rerank: options.Rerank = "",
    second_retriever: options.SecondRetriever = "",
    option: options.OptionTexts = None,
) -> None:
    """Talk with your documents: follow-up questions, quotes under each answer. /help lists the commands.

    Questions from a pipe are answered one by one; where one fails, the command ends with exit code 1.
    """
    from ragweave.cli.screen import loading

    with loading():
        from ragweave.cli.ask import served_graph
        from ragweave.cli.conversation import conversation, read_conversation
        from ragweave.graphs import METHODS
        from ragweave.tools.warm_up import warm_up

        named = options.read_models(model, proxy, judge, rewriter, filter_model, option)
        found = options.open_retriever(kb, retriever, rerank, k)
        again = options.second_retriever(second_retriever, kb, METHODS)
        models, texts = options.load_cited(*named)

        def make(name: str) -> ChatGraph:
            given = {**models, **again}
            graph = served_graph(name, given, k, texts, found, beside=[method])
            return conversation(graph, models)

        talk = Talk(make, method, read_conversation() if follow_up else [])
        warm_up([found, *again.values(), *models.values()])
    options.show_notice(models)
    talk.run()
    if talk.failed and not sys.stdin.isatty():
        raise typer.Exit(1)


@dataclass
class Talk:
    """A conversation: what was said, and what the last answer rests on."""

    make: Callable[[str], ChatGraph]
    """Builds the conversation over a method, by name."""
    method: str
    messages: list[BaseMessage] = field(default_factory=list)
    result: Mapping[str, Any] = field(default_factory=dict)
    watch: Watch | None = None
    failed: bool = False
    """Whether a question was not answered."""
    _runner: asyncio.Runner = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Build the graph, so that a mistake shows before the first question."""
        self.graph = self.make(self.method)

    def run(self) -> None:
        """Read lines until the user leaves."""
        import asyncio

        from ragweave.cli.screen import progress_console

        if isinstance(sys.stdin, TextIOWrapper):
            sys.stdin.reconfigure(errors="surrogateescape")  # else bytes that are not UTF-8 end it
        if sys.stdin.isatty():
            progress_console().print(f"{self.method}. /help lists the commands.", style="dim")
        # One loop for all questions: a model's open connections belong to the loop they came with.
        with asyncio.Runner() as self._runner:
            self._take_lines()

    def _take_lines(self) -> None:
        while True:
            try:
                line = input(PROMPT if sys.stdin.isatty() else "").strip()
            except EOFError:
                return
            if line in ("/quit", "/exit"):
                return
            if line:
                self.take(line)

    def take(self, line: str) -> None:
        """Do what a line asks for; a mistake or a failed call is one line, and the talk goes on."""
        from ragweave.cli.screen import told
        from ragweave.state.passages import whole
        from ragweave.tools.text.plain import plain

        line = whole(line)
        asks = not line.startswith("/")
        try:
            if asks:
                self._ask(line)
            else:
                self._command(*line[1:].split(maxsplit=1))
        except Exception as error:
            said = told(error)
            if said is None:
                raise
            sys.stderr.write(f"ragweave: {plain(said)}\n")
            self.failed |= asks

    def _command(self, name: str = "", value: str = "") -> None:
        commands: dict[str, Callable[[str], None]] = {
            "sources": self._sources,
            "method": self._method,
            "trace": self._trace,
            "help": lambda _: typer.echo(HELP),
        }
        if name not in commands:
            raise UsageError(f"there is no command /{name}: /help lists them")
        commands[name](value)

    def _ask(self, question: str) -> None:
        from contextvars import copy_context

        from langchain_core.messages import HumanMessage
        from rich.markup import escape

        from ragweave.cli.conversation import keep_conversation
        from ragweave.cli.screen import console, progress_console
        from ragweave.cli.show import show_footnotes, show_warnings
        from ragweave.cli.watch import Watch, follow
        from ragweave.tools.footnotes import with_marks
        from ragweave.tools.text.plain import plain

        watch = Watch(live=False)
        given = {"messages": [*self.messages, HumanMessage(question)]}
        with progress_console().status(f"{self.method} …"):
            result = self._runner.run(follow(self.graph, given, watch), context=copy_context())
        self.messages, self.result, self.watch = result["messages"], result, watch
        screen = console()
        if result["question"] != question:
            screen.print(escape(plain(f"({result['question']})")), style="dim", soft_wrap=True)
        cited = result["citations"]
        screen.print(escape(plain(with_marks(result["answer"], cited))), soft_wrap=True)
        show_footnotes(screen, cited, result["passages"])
        show_warnings(screen, result, watch)
        keep_conversation(self.messages)

    def _sources(self, _value: str) -> None:
        from ragweave.cli.screen import console
        from ragweave.cli.show import show_sources

        if not self._answered().get("passages"):
            raise UsageError("the last answer rests on no passage")
        show_sources(console(), self._answered())

    def _method(self, name: str) -> None:
        if name:
            self.graph, self.method = self.make(name), name
        typer.echo(self.method)

    def _trace(self, _value: str) -> None:
        from ragweave.cli.record import run_steps
        from ragweave.cli.screen import console
        from ragweave.cli.show import tree

        self._answered()
        if self.watch is not None:
            console().print(tree(run_steps(self.watch)))

    def _answered(self) -> Mapping[str, Any]:
        if not self.result:
            raise UsageError("nothing has been asked in this conversation yet")
        return self.result
