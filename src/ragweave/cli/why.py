"""`ragweave why`: which stage lost an answer, and which setting to try."""

from __future__ import annotations

import shlex
from typing import Annotated, Any, get_args

import typer

from ragweave.cli import options
from ragweave.cli.screen import progress_console
from ragweave.errors import UsageError


def why(
    question: Annotated[str, typer.Argument(help="The question.")],
    expect: Annotated[list[str] | None, typer.Option(help="A right answer. Repeatable.")] = None,
    kb: options.Kb = options.DEFAULT_KB,
    method: options.Method_ = options.DEFAULT_METHOD,
    model: options.Model = None,
    k: options.K = None,
    retriever: options.Retriever = "auto",
    option: options.Option = None,
) -> None:
    """Ask a question, and say which stage lost the right answer, and which setting to try.

    It reads every passage of the knowledge base, which must be a folder.
    """
    from ragweave.datasets import Question
    from ragweave.evaluation.why import STATE, Library, explain
    from ragweave.graphs.specs import read_system
    from ragweave.names import RetrieverName
    from ragweave.tools.knowledge import KnowledgeBase
    from ragweave.tools.knowledge.servers import is_address, searched

    if not expect or not all(map(str.strip, expect)):
        raise UsageError("name the right answer: --expect ANSWER")
    mode, place = searched(read_system(method).retriever or retriever, "")
    if mode not in get_args(RetrieverName):
        raise UsageError(f"--retriever must be one of {', '.join(get_args(RetrieverName))}, not {mode!r}")
    if is_address(place or kb):
        raise UsageError("why reads every passage: name a knowledge base in a folder, not at an address")
    with progress_console().status(f"{method} …"):
        setup = options.Setup.open([method], kb, model, k, retriever, "", "", "", option, citations=False)
        state = setup.graph(method).invoke({"question": question}, output_keys=STATE)
    typer.echo(f"{method} answered: {state['answer']}")
    with KnowledgeBase.open(place or setup.kb) as base:
        asked = Question(id="why", question=question, answers=tuple(expect))
        finding = explain(asked, state, Library(base, mode))  # type: ignore[arg-type]
    typer.echo(finding or "The answer is right.")
    if finding and finding.settings:
        given = {"kb": kb, "method": method, "k": k, "retriever": retriever}
        typer.echo(_command(question, given | dict(finding.settings), model, option))


def _command(question: str, settings: dict[str, Any], model: list[str] | None, option: list[str] | None) -> str:
    """Return the command that asks again, with the settings to try."""
    usual = {"kb": options.DEFAULT_KB, "method": options.DEFAULT_METHOD, "k": None, "retriever": "auto"}
    words = ["ragweave", "ask", question]
    for name, value in settings.items():
        if value != usual[name]:
            words += ["-k" if name == "k" else f"--{name}", str(value)]
    words += [word for spec in model or () for word in ("--model", spec)]
    words += [word for text in option or () for word in ("-o", text)]
    return shlex.join(words)
