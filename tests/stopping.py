"""A training's watch that wants to stop."""

from __future__ import annotations

from ragweave.training.job import Watch


class Stopping(Watch):
    """Counts the rows that are read; wants to stop after some of them."""

    def __init__(self, stop_after: int = 0) -> None:
        super().__init__()
        self.steps: list[int] = []
        self._stop_after = stop_after

    def step(self, done: int, total: int, loss: float | None) -> None:
        self.steps.append(done)
        self.stop_wanted = done == self._stop_after
