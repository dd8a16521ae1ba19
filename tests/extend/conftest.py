"""Packages of other people: the command line with them on the path, and made-up ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.packages import lay_package

Run = Callable[..., subprocess.CompletedProcess[str]]

collect_ignore = ["draft_check"]  # the outside package's own tests run where it is installed


@pytest.fixture(scope="session")
def python() -> Run:
    """Run Python with `folder` on the path: the code, or the command line's arguments."""

    def run(folder: Path, *args: str, cwd: Path | None = None, code: str = "") -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))
        return subprocess.run(
            [sys.executable, *(("-c", code) if code else ("-m", "ragweave")), *args],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    return run


Distribution = Callable[..., Path]


@pytest.fixture
def distribution(tmp_path: Path) -> Distribution:
    """Lay a package out in the folder `site`, and return that."""

    def lay(*package: Any) -> Path:
        (tmp_path / "site").mkdir(exist_ok=True)
        lay_package(tmp_path / "site", *package)
        return tmp_path / "site"

    return lay
