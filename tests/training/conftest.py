"""Trainings in one process."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True)
def _young_heap_each_test() -> None:
    """Collect and freeze before each test: a training collects garbage several times."""
    gc.collect()
    gc.freeze()
