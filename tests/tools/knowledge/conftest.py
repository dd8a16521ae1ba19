"""A small folder of files, and embeddings that need no model."""

from __future__ import annotations

from pathlib import Path

import pytest

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
