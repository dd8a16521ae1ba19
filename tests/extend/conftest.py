"""Packages of other people: the command line with them on the path, and made-up ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

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
    """Lay a package out as an installer would: its module, and what it says of itself."""

    def lay(name: str, source: str, points: Mapping[str, Mapping[str, str]]) -> Path:
        site = tmp_path / "site"
        site.mkdir(exist_ok=True)
        (site / f"{name}.py").write_text(source, "utf-8")
        info = site / f"{name}-0.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.2\n")
        groups = [
            f"[{group}]\n" + "\n".join(f"{key} = {value}" for key, value in listed.items())
            for group, listed in points.items()
        ]
        (info / "entry_points.txt").write_text("\n\n".join(groups) + "\n", "utf-8")
        return site

    return lay
