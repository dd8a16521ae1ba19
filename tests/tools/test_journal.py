"""A journal keeps every line that was appended, and no half one."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.errors import LockedError, UsageError
from ragweave.tools.journal import Journal, line_of, read_lines, repair

RECORDS: list[Any] = [{"at": 0, "text": "Straße"}, ["a\nb"], "half \ud800", None, {"at": 1}]


def opened(path: Path, **settings: Any) -> Journal:
    journal = Journal(path, **settings)
    journal.open()
    return journal


def test_lines_are_read_back_with_their_places(tmp_path: Path) -> None:
    journal = opened(tmp_path / "j")
    offsets = [journal.append(line_of(one)) for one in RECORDS]
    found = list(journal.lines())
    assert [one.record for one in found] == [*RECORDS[:2], "half ?", *RECORDS[3:]]
    assert [one.offset for one in found] == offsets
    assert [one.number for one in found] == [1, 2, 3, 4, 5]
    assert journal.record_at(offsets[4]) == {"at": 1}
    assert list(read_lines(tmp_path / "j")) == found
    journal.close()
    assert list(read_lines(tmp_path / "missing")) == []


@given(st.integers(min_value=0))
def test_a_file_cut_anywhere_loses_its_last_line_alone(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("cut") / "j"
    whole = b"".join(map(line_of, RECORDS))
    kept = whole[: cut % (len(whole) + 1)]
    path.write_bytes(kept)
    journal = opened(path)
    journal.append(line_of("next"))
    journal.close()
    found = [one.record for one in read_lines(path)]
    assert found[-1] == "next"
    assert len(found) == kept.count(b"\n") + 1
    assert repair(path) == 0


def test_a_line_longer_than_a_block_is_mended_too(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_bytes(line_of("first") + b'"' + b"x" * 200_000)
    assert repair(path) == 200_001
    assert [one.record for one in read_lines(path)] == ["first"]


def test_a_damaged_line_is_told_by_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "j").write_text('{"at": 0}\nwhat is this\n', "utf-8")
    with pytest.raises(UsageError, match=r"/j:2: is damaged \("):
        list(read_lines(tmp_path / "j"))


def test_a_full_disk_leaves_whole_lines(tmp_path: Path) -> None:
    journal = opened(tmp_path / "j")
    journal.append(line_of("first"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError, match="too large") as told:
            journal.append(line_of("second") + line_of("x" * 500))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert told.value.errno == errno.EFBIG
    assert (tmp_path / "j").read_bytes() == line_of("first")
    journal.append(line_of("third"))
    assert [one.record for one in journal.lines()] == ["first", "third"]
    journal.close()


def test_what_was_appended_outlasts_a_kill(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import os, signal, sys
        from pathlib import Path
        from ragweave.tools.journal import Journal, line_of
        journal = Journal(Path(sys.argv[1]), sync_every=60)
        journal.open(alone=True)
        for at in range(3):
            journal.append(line_of({"at": at}))
        os.write(journal._handle, b'{"at": 3')
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "j")], check=False)
    journal = Journal(tmp_path / "j")
    journal.open(alone=True)
    assert [one.record["at"] for one in journal.lines()] == [0, 1, 2]
    journal.close()
    assert (tmp_path / "j").read_bytes().endswith(b'{"at": 2}\n')


def test_one_that_is_open_alone_lets_no_other_in(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.open(alone=True)
    with pytest.raises(LockedError):
        Journal(tmp_path / "j").open(alone=True)
    journal.close()
    other = Journal(tmp_path / "j")
    other.open(alone=True)
    other.remove()
    other.close()
    assert not (tmp_path / "j").exists()


def test_lines_come_to_the_disk_now_and_then_or_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced, real = [0], os.fsync

    def counted(handle: int) -> None:
        synced[0] += 1
        real(handle)

    monkeypatch.setattr(os, "fsync", counted)
    often, seldom = opened(tmp_path / "a"), opened(tmp_path / "b", sync_every=3600)
    for journal in (often, seldom):
        synced[0] = 0
        for at in range(5):
            journal.append(line_of(at))
        journal.close()
        if journal is often:
            assert synced[0] == 5
    assert synced[0] <= 2


def test_other_values_are_made_json_where_asked() -> None:
    assert json.loads(line_of({"path": Path("a")}, default=str)) == {"path": "a"}
    with pytest.raises(TypeError):
        line_of({"path": Path("a")})


@pytest.mark.parametrize("pread", [True, False])
@given(steps=st.lists(st.tuples(st.sampled_from("ard"), st.integers(0, 5_000)), max_size=25))
def test_reading_and_appending_take_turns(pread: bool, steps: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        if not pread:
            patch.delattr(os, "pread")
        journal = Journal(Path(folder) / "j.jsonl")
        journal.open()
        offsets = [journal.append(line_of({"at": 0}))]
        lines = journal.lines()
        seen = [next(lines).record["at"]]
        for step, size in steps:
            if step == "a":
                offsets.append(journal.append(line_of({"at": len(offsets), "pad": "x" * size})))
            elif step == "r":
                at = size % len(offsets)
                assert journal.record_at(offsets[at])["at"] == at
            else:
                seen += [one.record["at"] for one in islice(lines, 1)]
        seen += [one.record["at"] for one in lines]
        assert seen == list(range(len(seen)))
        assert [one.offset for one in journal.lines()] == offsets
        journal.close()


def test_lines_appended_meanwhile_hide_none(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    journal.open()
    for at in range(900):
        journal.append(line_of({"at": at, "pad": "x" * 97}))
    lines = journal.lines()
    assert next(lines).record["at"] == 0
    journal.append(line_of({"at": "extra"}))
    assert sum(1 for _ in lines) >= 899
    journal.close()
    with pytest.raises(OSError, match=r"[Bb]ad file descriptor"):
        next(journal.lines())
