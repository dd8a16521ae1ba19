"""Replies of real small models are read as people read them."""

from __future__ import annotations

from benchmarks import reader


def test_recorded_replies_are_read_as_meant() -> None:
    records = reader.records()
    assert len(records) == 674
    assert sum(map(reader.as_meant, records)) >= 0.95 * len(records)
    constrained = [record for record in records if record["grammar"]]
    assert sum(map(reader.as_meant, constrained)) >= 0.98 * len(constrained)
