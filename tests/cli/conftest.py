"""The command line in this process: what it prints, and its exit code."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.extras import missing_said

from ragweave.cli.main import main
from ragweave.testing import ScriptedModel
from ragweave.tools.providers import MODELS, ModelProvider


class Done(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


def run(*args: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, stdin: str = "") -> Done:
    """Run `ragweave` with the arguments given."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name, value in {"COLUMNS": "200", **(env or {})}.items():
            patch.setenv(name, value)
        if cwd is not None:
            patch.chdir(cwd)
        patch.setattr("sys.path", [*sys.path])
        patch.setattr("sys.stdin", io.StringIO(stdin))
        code = main(args)
    done = Done(code, out.getvalue(), err.getvalue())
    if code == 2 and (reason := missing_said(done.stderr)):
        pytest.skip(reason)
    return done


@pytest.fixture(scope="session")
def ragweave() -> Run:
    """Run `ragweave` with the arguments given."""
    return run


@pytest.fixture
def scripted() -> Iterator[dict[str, ScriptedModel]]:
    """Chat models by name, for `--model scripted:NAME`; a test fills the mapping."""
    models: dict[str, ScriptedModel] = {}
    provider = ModelProvider(
        name="scripted", spec="scripted:NAME", summary="A script.", make=lambda name, _settings: models[name]
    )
    MODELS.register(provider)
    yield models
    MODELS.unregister("scripted")


@pytest.fixture(scope="session")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a few documents of several kinds."""
    folder = tmp_path_factory.mktemp("town")
    (folder / "bridge.md").write_text(
        "# The Old Bridge\n\nThe Old Bridge of Varn was opened in 1932. It is 212 metres long.\n", "utf-8"
    )
    (folder / "museum.txt").write_text("The museum of Varn shows clocks. Its director is Ada Lindqvist.\n", "utf-8")
    (folder / "rows.jsonl").write_text(
        '{"id": "r1", "title": "Harbour", "text": "The harbour of Varn freezes in January."}\n', "utf-8"
    )
    return folder


@pytest.fixture(scope="session")
def kb(town: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BM25 knowledge base of that folder."""
    path = tmp_path_factory.mktemp("kb") / "kb"
    done = run("index", str(town), "--kb", str(path), "--embedding", "none")
    assert done.returncode == 0, done.stderr
    return path
