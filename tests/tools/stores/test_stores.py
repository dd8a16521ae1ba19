"""Every store against the contract of a knowledge base."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.search_server import SearchServer

from ragweave.testing import KnowledgeStoreTests

NUMBERS = itertools.count()


@pytest.mark.skipif(find_spec("chromadb") is None, reason="needs ragweave[chroma]")
class TestFolder(KnowledgeStoreTests):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self._path = tmp_path

    def place(self) -> Path:
        return self._path / f"kb{next(NUMBERS)}"


@pytest.mark.skipif(find_spec("psycopg") is None, reason="needs ragweave[postgres]")
@pytest.mark.loopback
class TestPostgres(KnowledgeStoreTests):
    @pytest.fixture(autouse=True)
    def _url(self, database: str) -> None:
        self._database = database

    def place(self) -> str:
        return f"pg:{self._database}#t{next(NUMBERS)}"


@pytest.mark.skipif(find_spec("qdrant_client") is None, reason="needs ragweave[qdrant]")
class TestQdrant(KnowledgeStoreTests):
    exact_bm25 = False  # the mean length is that of the first write

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self._path = tmp_path

    def place(self) -> str:
        return f"qdrant:{self._path / 'qdrant'}#t{next(NUMBERS)}"


class _SearchEngine(KnowledgeStoreTests):
    exact_bm25 = False  # what earlier generations left counts too
    product: str
    scheme: str

    @pytest.fixture(autouse=True)
    def _server(self) -> Iterator[None]:
        with SearchServer(self.product, "tester", "only-for-tests") as server:
            self.server = server
            yield

    def place(self) -> str:
        return f"{self.scheme}:{self.server.url}#t{next(NUMBERS)}"


@pytest.mark.skipif(find_spec("elasticsearch") is None, reason="needs ragweave[elasticsearch]")
@pytest.mark.loopback
class TestElasticsearch(_SearchEngine):
    product, scheme = "elasticsearch", "es"


@pytest.mark.skipif(find_spec("opensearchpy") is None, reason="needs ragweave[opensearch]")
@pytest.mark.loopback
class TestOpenSearch(_SearchEngine):
    product, scheme = "opensearch", "opensearch"


del _SearchEngine
