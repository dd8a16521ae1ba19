"""Files and folders that are replaced whole, or not at all."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from ragweave.errors import DiskFullError, RagweaveError
from ragweave.tools import files
from ragweave.tools.files import (
    is_full_disk,
    remove_leftovers,
    replacing,
    replacing_folder,
    write_atomic,
)


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def test_text_and_bytes_are_written_as_they_are(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a.txt", "Straße\r\nund\n")
    assert (tmp_path / "a.txt").read_bytes() == "Straße\r\nund\n".encode()
    write_atomic(tmp_path / "a.txt", b"\x00\xff")
    assert (tmp_path / "a.txt").read_bytes() == b"\x00\xff"
    assert names(tmp_path) == ["a.txt"]


def test_a_writer_that_fails_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old", "utf-8")

    def write() -> None:
        with replacing(path) as draft:
            draft.write_text("half", "utf-8")
            raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        write()
    assert path.read_text("utf-8") == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_writer_that_is_killed_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old", "utf-8")
    program = textwrap.dedent(
        """
        import os, signal, sys
        from pathlib import Path
        from ragweave.tools.files import replacing
        with replacing(Path(sys.argv[1])) as draft:
            draft.write_text("half", "utf-8")
            os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    killed = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert path.read_text("utf-8") == "old"
    assert len(names(tmp_path)) == 2
    remove_leftovers(path)
    assert names(tmp_path) == ["a.txt"]


def test_only_leftovers_that_nobody_touched_for_long_are_cleaned_by_the_next_write(
    tmp_path: Path,
) -> None:
    for name, age in ((".a.txt.1-aa.new", 7200), (".a.txt.2-bb.new", 0), (".b.txt.1-aa.new", 7200)):
        (tmp_path / name).write_text("half", "utf-8")
        os.utime(tmp_path / name, (time.time() - age, time.time() - age))
    write_atomic(tmp_path / "a.txt", "new")
    assert names(tmp_path) == [".a.txt.2-bb.new", ".b.txt.1-aa.new", "a.txt"]


def test_who_writes_alone_cleans_leftovers_at_once(tmp_path: Path) -> None:
    for name in (".a.txt.2-bb.new", ".b.txt.1-aa.new"):
        (tmp_path / name).write_text("half", "utf-8")
    write_atomic(tmp_path / "a.txt", "new", alone=True)
    assert names(tmp_path) == [".b.txt.1-aa.new", "a.txt"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444])
def test_permissions_are_kept(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old", "utf-8")
    path.chmod(mode)
    write_atomic(path, "new")
    assert path.stat().st_mode & 0o777 == mode
    assert path.read_text("utf-8") == "new"


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").write_text("", "utf-8")
    write_atomic(tmp_path / "ours", "")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_link_is_followed_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "a.txt").write_text("old", "utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "there" / "a.txt")
    write_atomic(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "a.txt").read_text("utf-8") == "new"
    write_atomic(Path(os.devnull), "gone")
    assert not Path(os.devnull).is_file()


def test_a_limit_on_file_sizes_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old", "utf-8")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(DiskFullError) as told:
            write_atomic(path, "x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert isinstance(told.value, RagweaveError)
    assert str(told.value) == (f"{path}: cannot be written (File too large); the old content is unchanged")
    assert path.read_text("utf-8") == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_disk_that_is_full_when_the_content_is_brought_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "_sync", full)
    with pytest.raises(DiskFullError, match="No space left on device"):
        write_atomic(tmp_path / "a.txt", "new")
    assert names(tmp_path) == []
    write_atomic(tmp_path / "a.txt", "not brought to the disk", sync=False)
    assert names(tmp_path) == ["a.txt"]


def test_what_libraries_say_of_a_full_disk_is_understood(tmp_path: Path) -> None:
    def write() -> None:
        with replacing(tmp_path / "a.bin"):
            raise RuntimeError("PytorchStreamWriter failed writing file data/1: file write failed")

    with pytest.raises(DiskFullError):
        write()
    assert not is_full_disk(OSError(errno.EACCES, "Permission denied"))


def test_a_folder_is_replaced_whole(tmp_path: Path) -> None:
    for content in ("one", "two"):
        with replacing_folder(tmp_path / "f") as draft:
            (draft / "sub").mkdir()
            (draft / "sub" / f"{content}.txt").write_text(content, "utf-8")
        assert names(tmp_path / "f" / "sub") == [f"{content}.txt"]
        assert names(tmp_path) == ["f"]


def test_a_folder_whose_writer_fails_is_as_it_was(tmp_path: Path) -> None:
    with replacing_folder(tmp_path / "f") as draft:
        (draft / "a.txt").write_text("old", "utf-8")

    def write() -> None:
        with replacing_folder(tmp_path / "f") as draft:
            (draft / "b.txt").write_text("new", "utf-8")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(DiskFullError):
        write()
    assert names(tmp_path / "f") == ["a.txt"]
    assert names(tmp_path) == ["f"]
