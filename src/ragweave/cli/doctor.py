"""`ragweave doctor`: what is installed, what this machine has, whether a model file fits."""

from __future__ import annotations

from typing import Annotated

import typer

_MARKS = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}


def doctor(
    model: Annotated[
        str | None, typer.Option("--model", help="A GGUF file, or llamacpp:PATH, to look into.")
    ] = None,
) -> None:
    """Look at the installation, the machine and, with --model, a model file."""
    from ragweave.tools.machine import inspect_machine

    path = model.removeprefix("llamacpp:").partition("?")[0] if model else None
    findings = inspect_machine(path)
    topic = ""
    for finding in findings:
        if finding.topic != topic:
            topic = finding.topic
            typer.echo(topic)
        typer.echo(f"  {_MARKS[finding.level]} {finding.text}")
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(1)
