"""Replies of real small models are read as people read them."""

from __future__ import annotations

from benchmarks import reader


def test_recorded_replies_are_read_as_meant() -> None:
    found = [(record, reader.as_meant(record)) for record in reader.records()]
    held = [right for record, right in found if record["grammar"]]
    assert len(found) == 674
    assert sum(right for _, right in found) >= 0.95 * len(found)
    assert sum(held) >= 0.98 * len(held)
