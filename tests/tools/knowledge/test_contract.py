"""The contract of a knowledge base, in a folder, on PostgreSQL, and in Qdrant's local mode."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from langchain_core.embeddings import Embeddings
from tests import postgres_server

from ragweave.testing.store import KnowledgeStoreTests
from ragweave.tools.knowledge import KnowledgeBase, ServedKnowledgeBase

_NUMBERS = count()


class TestFolder(KnowledgeStoreTests):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def create(self, embeddings: Embeddings) -> KnowledgeBase:
        return KnowledgeBase.create(self.folder / f"kb{next(_NUMBERS)}", embeddings=embeddings)


class TestChromaFolder(KnowledgeStoreTests):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        pytest.importorskip("chromadb")
        self.folder = tmp_path

    def create(self, embeddings: Embeddings) -> ServedKnowledgeBase:
        address = f"chroma:{self.folder}/chroma#papers{next(_NUMBERS)}"
        return ServedKnowledgeBase(address, embeddings)


@pytest.fixture(scope="module")
def server(socket_enabled_for_module: None) -> Iterator[str]:
    pytest.importorskip("pgvector")
    if postgres_server.binaries() is None:
        pytest.skip("no PostgreSQL with pgvector")
    with postgres_server.postgres() as url:
        yield url


@pytest.mark.loopback
class TestPostgres(KnowledgeStoreTests):
    @pytest.fixture(autouse=True)
    def _url(self, server: str) -> None:
        self.url = server

    def create(self, embeddings: Embeddings) -> ServedKnowledgeBase:
        return ServedKnowledgeBase(f"pg:{self.url}#papers{next(_NUMBERS)}", embeddings)
