"""A small folder of files, embeddings that need no model, and a Chroma server."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.servers import free_port, wait_for

from ragweave.testing.store import WordEmbeddings


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def embeddings() -> WordEmbeddings:
    return WordEmbeddings()


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "harbour.md").write_text(
        "# Handbook\n\n## Leave\n\nStaff have twenty-five days.\n\n## Refunds\n\nPaid within ten "
        "days.\n\n## Keys\n\nA lost key costs forty euro.\n"
    )
    (folder / "ferry.txt").write_text("The ferry sails at nine from the north pier.")
    return folder


@pytest.fixture(scope="module")
def chroma(tmp_path_factory: pytest.TempPathFactory, socket_enabled_for_module: None) -> Iterator[str]:
    pytest.importorskip("chromadb")
    command = shutil.which("chroma", path=str(Path(sys.executable).parent))
    if command is None:
        pytest.skip("the command chroma is not installed")
    port, folder = free_port(), tmp_path_factory.mktemp("chroma")
    options = ["--path", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen([command, "run", *options], stdout=subprocess.DEVNULL)
    wait_for(port, server)
    yield f"http://127.0.0.1:{port}"
    server.terminate()
    server.wait()
