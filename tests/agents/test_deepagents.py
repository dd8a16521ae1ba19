"""A conversation as a subagent of the real deepagents, which is installed into a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.nightly
def test_it_is_a_subagent(tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(site)]
    installed = subprocess.run([*pip, "deepagents>=0.7,<0.8"], capture_output=True, text=True, timeout=600, check=False)
    if installed.returncode:
        pytest.skip(f"deepagents cannot be installed here: {installed.stderr[-300:]}")
    check = shutil.copy(HERE / "deepagents_check.py", tmp_path)
    paths = os.pathsep.join([str(site), str(HERE.parents[1] / "src")])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", check]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
