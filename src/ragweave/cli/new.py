"""`ragweave new`: an app of your own, from the template."""

from __future__ import annotations

import shutil
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from ragweave.errors import UsageError


def new(folder: Annotated[Path, typer.Argument(help="The folder to create.")]) -> None:
    """Make an app: a chat page, a folder for documents, tests, and langgraph.json."""
    if folder.exists():
        raise UsageError(f"{folder} is there already: name a new folder")
    with resources.as_file(resources.files("ragweave") / "template") as template:
        shutil.copytree(template, folder, ignore=shutil.ignore_patterns("__pycache__"))
    typer.echo(f"{folder}: put files into {folder / 'documents'}, then:")
    typer.echo(f'  pip install "ragweave[examples,offline]" pytest\n  cd {folder} && python app.py')
