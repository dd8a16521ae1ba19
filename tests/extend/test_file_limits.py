"""Files are read under limits of time and memory, in a process of their own, with the types of other packages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.packages import installed, lay_package
from tests.tools.knowledge.loaders.made import docx, paragraph

from ragweave import KnowledgeBase
from ragweave.tools.knowledge import FileLimits

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX signals and limits")

HOSTILE = """
import ctypes, os, time
from pathlib import Path
from ragweave.tools.knowledge.chunking import Loaded
from ragweave.tools.knowledge.loaders import FileType

def load(name, file, settings):
    text = file.read().decode()
    with Path(text).open("a") as log:
        log.write(f"{os.getpid()}\\n")
    yield Loaded("A text before.", name)
    if name == "hang":
        ctypes.PyDLL(None).sleep(600)  # holds the interpreter's lock
    if name == "fill":
        yield from (Loaded(str(len(block)), name) for block in [bytearray(2**32)])
    if name == "crash":
        os.abort()
    if name == "quit":
        os._exit(0)
    if name == "number":
        yield Loaded("A text.", 7)
    print("what a library prints")
    assert not os.read(0, 1)
    yield Loaded("A text after.", name)

TYPE = FileType(name="hostile", suffixes=(".hostile",), summary="", load=load)
"""
NAMES = ("crash", "fill", "hang", "number", "quit")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "files"
    folder.mkdir()
    for name in (*NAMES, "fine"):
        (folder / f"{name}.hostile").write_text(str(tmp_path / f"{name}.read"))
    (folder / "z.docx").write_bytes(docx(paragraph("The ferry sails at nine.")))
    with installed(
        lay_package(tmp_path / "site", "hostile", HOSTILE, {"ragweave.file_types": {"hostile": "hostile:TYPE"}})
    ):
        yield folder


def reads(folder: Path, name: str) -> list[str]:
    return (folder.parent / f"{name}.read").read_text().split()


def test_a_file_that_hangs_crashes_or_fills_memory_is_one_line(folder: Path) -> None:
    limits = FileLimits(max_seconds=2, max_memory=1024)
    with KnowledgeBase.create(folder.parent / "kb", settings={"embedding": None}) as kb:
        report = kb.index_paths(folder, limits=limits)
        texts = sorted(doc.page_content for doc in kb.passages())
        assert texts == ["A text after.", "A text before.", "The ferry sails at nine."]
        lines = {Path(notice.path).stem: notice.reason for notice in report.notices}
        assert [notice.status for notice in report.notices] == ["skipped"] * 5
        assert lines.keys() == set(NAMES)
        assert "too long (limits of a file: 2 s per MiB, 1024 MiB" in lines["hang"]
        assert "too much memory" in lines["fill"]
        assert "crashed with code -6" in lines["crash"]

        # read again only if the limits are others; a damaged file not at all
        assert kb.index_paths(folder, limits=limits).notices == report.notices
        assert [len(reads(folder, name)) for name in (*NAMES, "fine")] == [1] * 6
        (folder / "crash.hostile").unlink()
        (folder / "hang.hostile").unlink()
        kb.index_paths(folder, limits=FileLimits(max_seconds=3, max_memory=1024))
        assert [len(reads(folder, name)) for name in ("fill", "quit", "number", "fine")] == [2, 2, 1, 1]


def test_one_process_reads_many_files(folder: Path) -> None:
    for name in NAMES:
        (folder / f"{name}.hostile").unlink()
    for number in range(5):
        (folder / f"{number}.hostile").write_text(str(folder.parent / "fine.read"))
    with KnowledgeBase.create(folder.parent / "kb", settings={"embedding": None}) as kb:
        kb.index_paths(folder)
        pids = reads(folder, "fine")
        assert len(pids) == 6
        assert len({*pids, str(os.getpid())}) == 2
        with pytest.raises(ProcessLookupError):
            os.kill(int(pids[0]), 0)

        (folder / "fine.hostile").write_text(str(folder.parent / "here.read"))
        kb.index_paths(folder, limits=None)
        assert reads(folder, "here") == [str(os.getpid())]


def test_ctrl_c_leaves_no_process(folder: Path) -> None:
    for name in NAMES:
        if name != "hang":
            (folder / f"{name}.hostile").unlink()
    command = [sys.executable, "-m", "ragweave", "index", str(folder), "--kb", str(folder.parent / "kb")]
    path = os.pathsep.join([str(folder.parent / "site"), *filter(None, sys.path)])
    with subprocess.Popen(
        [*command, "--embedding", "none"],
        env=os.environ | {"PYTHONPATH": path},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        while not (folder.parent / "hang.read").exists() or not reads(folder, "hang"):
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.wait() == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(reads(folder, "hang")[0]), 0)


def test_no_module_among_the_files_is_imported(folder: Path) -> None:
    (folder / "zipfile.py").write_text("raise SystemExit('a stranger’s module')")
    command = [sys.executable, "-P", "-m", "ragweave", "index", "z.docx", "--kb", "kb", "--embedding", "none"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
