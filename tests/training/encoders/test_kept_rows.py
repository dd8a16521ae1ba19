"""What was read of rows: kept in parts, joined seldom, read once however often it is stopped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.training.encoders import kept_rows
from ragweave.training.encoders.kept_rows import Rows, read_once
from ragweave.training.job import Job, Settings, Watch
from ragweave.training.rows import Split

pytest.importorskip("safetensors")

BLANK: Rows = {"vectors": np.zeros((0, 3)), "words": np.zeros(0, np.int64)}


class Reading:
    """Reads rows of which each has as many words as its number; wants to stop after a step."""

    def __init__(self, stop_after: int = -1) -> None:
        self.watch, self.seen, self._left = Watch(), list[int](), stop_after

    def __call__(self, part: slice) -> Rows:
        rows = list(range(part.start, part.stop))
        self.seen += rows
        self._left -= 1
        self.watch.stop_wanted = self._left == 0
        vectors = np.asarray([[row, 1, 2] for row in rows], np.float64)
        return {"vectors": vectors, "words": np.repeat(rows, rows)}

    def run(self, folder: Path, count: int, at_once: int, mark: str = "") -> Rows:
        settings = Settings(base="tiny")
        job = Job(
            role="judge",
            kind="linear",
            rows=Split([], []),
            settings=settings,
            folder=folder,
            resume=True,
            watch=self.watch,
        )
        return read_once(job, count, at_once, self, BLANK, mark)


@given(st.integers(0, 12), st.integers(1, 5), st.integers(1, 6), st.integers(1, 4))
def test_stopped_anywhere_each_row_is_read_once(
    tmp_path_factory: pytest.TempPathFactory, count: int, at_once: int, every: int, stop: int
) -> None:
    folder, seen = tmp_path_factory.mktemp("part"), list[int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_rows, "_SAVE_EVERY", every)
        while True:
            reading = Reading(stop)
            try:
                found = reading.run(folder, count, at_once)
            except KeyboardInterrupt:
                seen += reading.seen
                continue
            break
    assert seen + reading.seen == list(range(count))
    whole = Reading().run(folder / "whole", count, at_once)
    assert all(np.array_equal(found[name], whole[name]) for name in BLANK)
    assert found["words"].tolist() == [row for row in range(count) for _ in range(row)]


def test_all_that_was_read_is_copied_only_to_be_kept_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined, sizes = kept_rows._joined, list[int]()

    def counted(parts: list[Rows]) -> Rows:
        sizes.append(len(parts))
        return joined(parts)

    monkeypatch.setattr(kept_rows, "_joined", counted)
    monkeypatch.setattr(kept_rows, "_SAVE_EVERY", 40)
    Reading().run(tmp_path, 100, 2)
    assert sizes == [21, 21, 11]


def test_rows_that_were_read_with_something_else_are_read_again(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        Reading(1).run(tmp_path, 4, 2, mark="one")
    for mark, seen in (("other", [0, 1, 2, 3]), ("other", [])):
        reading = Reading()
        reading.run(tmp_path, 4, 2, mark)
        assert reading.seen == seen
