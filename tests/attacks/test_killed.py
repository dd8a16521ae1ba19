"""kill -9 at any moment: what is on the disk is the old state or the new one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tools.knowledge.test_store import kill


@pytest.mark.attack
def test_killed_often(tmp_path: Path, trials: Callable[[int], None]) -> None:
    kill(tmp_path, kills=100, seed=2)
    trials(99)
