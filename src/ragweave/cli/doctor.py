"""`ragweave doctor`: what is installed, what this machine has, whether and how fast a model runs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

_MARKS = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}


def doctor(
    model: Annotated[
        str | None,
        typer.Option("--model", help="A GGUF file, llamacpp:PATH, or smollm2, to look into."),
    ] = None,
    speed: Annotated[
        bool, typer.Option("--speed/--no-speed", help="With --model: run it and measure it.")
    ] = True,
) -> None:
    """Look at the installation, the machine and, with --model, a model file."""
    from ragweave.cli.machine import inspect_machine, measure_model
    from ragweave.cli.screen import plain

    path, settings = _named(model) if model else (None, {})
    findings = inspect_machine(path)
    usable = not any(one.level == "problem" for one in findings if one.topic == "model")
    if path is not None and speed and usable:
        findings += measure_model(path, settings)
    topic = ""
    for finding in findings:
        if finding.topic != topic:
            topic = finding.topic
            typer.echo(topic)
        typer.echo(f"  {_MARKS[finding.level]} {plain(finding.text)}")
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(1)


def _named(model: str) -> tuple[str, dict[str, Any]]:
    """Return the file that a spec or a path names, and the spec's settings."""
    from ragweave.llamacpp.provider import smollm2_file
    from ragweave.tools.models.specs import read_settings

    head, _, query = model.strip().partition("?")
    path = str(smollm2_file()) if head == "smollm2" else head.removeprefix("llamacpp:")
    return path, read_settings(query)
