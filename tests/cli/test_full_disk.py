"""What commands write is whole or not there, and a disk that refuses gets one line."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest
from tests import command
from tests.command import COMMAND, LEXICAL

LIMIT = 500


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


def run(*given: str, limited: bool = True, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [*COMMAND, *given],
        **{"text": True, "capture_output": True, **more},
        preexec_fn=_limit if limited else None,
        timeout=120,
    )


@pytest.fixture
def record(tmp_path: Path) -> Path:
    file = tmp_path / "run.json"
    done = command.run("ask", "Who?", "--method", "direct", *LEXICAL, "--trace-file", str(file))
    assert done.returncode == 0, done.stderr
    assert file.exists()
    return file


@pytest.mark.parametrize("before", [None, "what was there"])
def test_commands_leave_no_half_file(record: Path, tmp_path: Path, before: str | None) -> None:
    target = tmp_path / "out" / "file"
    target.parent.mkdir()
    for args in (
        ("ask", "Who?", "--method", "direct", *LEXICAL, "--trace-file", str(target)),
        ("trace", str(record), "--html", str(target)),
        ("draw", "concat", "--svg", str(target)),
    ):
        if before is not None:
            target.write_text(before)
        done = run(*args)
        assert done.returncode == 2, done.stderr
        last = done.stderr.strip().splitlines()
        assert last == [f"ragweave: cannot write {target}: File too large"]
        assert [one.name for one in target.parent.iterdir()] == ([] if before is None else ["file"])
        assert before is None or target.read_text() == before
        if args[0] == "ask":
            assert "Answer:" in done.stdout


def test_a_full_standard_output_is_a_line() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with Path("/dev/full").open("w") as full:
        done = run(
            "draw",
            "concat",
            limited=False,
            stdout=full,
            stderr=subprocess.PIPE,
            capture_output=False,
        )
    assert done.returncode == 2
    assert done.stderr == "ragweave: cannot write: No space left on device\n"
