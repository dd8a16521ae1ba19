"""The command line as a user meets it: a process of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests import command
from tests.command import Run
from tests.extras import missing_said


@pytest.fixture(scope="session")
def ragweave() -> Run:
    """Run `ragweave` with the arguments given; `cwd` and `env` as for `subprocess.run`."""

    def run(
        *args: str, cwd: Path | None = None, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = command.run(*args, cwd=cwd, env=env)
        if done.returncode == 2 and (reason := missing_said(done.stderr)):
            pytest.skip(reason)
        return done

    return run


@pytest.fixture(scope="session")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a few documents of several kinds."""
    folder = tmp_path_factory.mktemp("town")
    (folder / "bridge.md").write_text(
        "# The Old Bridge\n\nThe Old Bridge of Varn was opened in 1932. It is 212 metres long.\n",
        "utf-8",
    )
    (folder / "museum.txt").write_text(
        "The museum of Varn shows clocks. Its director is Ada Lindqvist.\n", "utf-8"
    )
    (folder / "rows.jsonl").write_text(
        '{"id": "r1", "title": "Harbour", "text": "The harbour of Varn freezes in January."}\n',
        "utf-8",
    )
    return folder


@pytest.fixture(scope="session")
def kb(town: Path, ragweave: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BM25 knowledge base of that folder."""
    path = tmp_path_factory.mktemp("kb") / "kb"
    done = ragweave("index", str(town), "--kb", str(path), "--embedding", "none")
    assert done.returncode == 0, done.stderr
    return path
