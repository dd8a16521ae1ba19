"""Files that are replaced whole, or not at all."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from ragweave.tools.files import write_atomic

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links, pipes and permissions of POSIX")


def test_the_text_is_written_as_it_is_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_atomic(path, "old")
    path.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(path)
    write_atomic(link, "Straße\r\nund\n")
    assert path.read_bytes() == "Straße\r\nund\n".encode()
    assert path.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.txt", "link"]


def test_a_write_that_fails_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_atomic(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomic(path, "new \ud800")
    assert path.read_text("utf-8") == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["a.txt"]


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text("utf-8")))
    reader.start()
    write_atomic(tmp_path / "pipe", "text")
    reader.join()
    assert read == ["text"]
