"""Locks: one holder at a time, told by name, dropped with its holder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ragweave.errors import LockedError
from ragweave.tools import files as locks
from ragweave.tools.files import hold, reading, writing

HOLDS = """
import sys
from pathlib import Path
from ragweave.tools.files import hold, reading
with {what}(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(path: Path, what: str = "hold", *inherited: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS.format(what=what), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_the_holder_is_told_and_a_killed_one_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    process = holder(path)
    try:
        with (
            pytest.raises(LockedError, match=f"locked by process {process.pid}") as told,
            hold(path),
        ):
            pass
        assert told.value.holder == str(process.pid)
        assert path.read_text("utf-8").strip() == str(process.pid)
    finally:
        end(process)
    assert process.returncode == -signal.SIGKILL
    with hold(path):
        assert path.read_text("utf-8").strip() == str(os.getpid())


def test_two_parts_of_one_process_do_not_hold_it_together(tmp_path: Path) -> None:
    with hold(tmp_path / "lock"), pytest.raises(LockedError), hold(tmp_path / "lock", wait=0.1):
        pass


def test_a_child_that_inherits_the_descriptor_holds_it_too(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with hold(path) as handle:
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"],
            stdin=subprocess.PIPE,
            pass_fds=(handle,),
        )
    try:
        with pytest.raises(LockedError), hold(path):
            pass
    finally:
        child.kill()
        child.communicate()
    with hold(path):
        pass


def test_a_lock_may_remove_its_file(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with hold(path, remove=True):
        assert path.exists()
    assert not path.exists()


def test_readers_share_and_a_writer_waits_for_them(tmp_path: Path) -> None:
    path = tmp_path / "data.lock"
    with reading(path):
        assert not path.exists()  # no writer was there yet
    with writing(path):
        pass
    process = holder(path, "reading")
    try:
        with reading(path):
            pass
        handle = locks.open_file(path)
        with pytest.raises(LockedError):
            locks.lock_open_file(handle, path)
        os.close(handle)
    finally:
        end(process)
    with writing(path):
        pass
