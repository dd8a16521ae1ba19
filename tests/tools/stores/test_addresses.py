"""Addresses of knowledge bases behind a server, and what their errors show."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.errors import UsageError
from ragweave.tools.stores import STORES, Address, place_of
from ragweave.tools.stores.search_engine import SearchEngineStore


def test_an_address_is_read() -> None:
    place = place_of("pg:postgresql://me:secret@db:5432/rag?sslmode=require#papers")
    assert isinstance(place, Address)
    assert (place.store, place.collection, place.has_password) == ("pg", "papers", True)
    assert place.place == "postgresql://me:secret@db:5432/rag?sslmode=require"
    assert str(place) == repr(place) == "pg:postgresql://db:5432/rag?sslmode=require#papers"
    assert Address.parse("qdrant:some/folder").collection == "ragweave"
    assert not Address.parse("pg:postgresql://me@db/rag").has_password
    assert Address.parse("pg:postgresql:///rag?user=me&password=secret").has_password


@pytest.mark.parametrize("text", ["kb", "./pg/kb", "/data/kb", "C-drive", "notes:2024"])
def test_a_folder_stays_one(text: str) -> None:
    assert place_of(text) == Path(text)
    assert place_of(Path("pg:x")) == Path("pg:x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("postgresql://me:secret@db/rag#papers", "put the store's name in front"),
        ("pg:", "needs a URL"),
        ("pg:postgresql://me:secret@db/rag#Papers!", "a collection's name has small letters"),
        ("pg:postgresql://me:secret@db/rag#", "a collection's name"),
    ],
)
def test_what_is_no_address_is_told_without_its_password(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        place_of(text)
    assert "secret" not in str(caught.value)


@given(st.from_regex(r"[a-z0-9_]{1,20}", fullmatch=True), st.text(max_size=20))
def test_no_password_is_shown(name: str, rest: str) -> None:
    word = "hunter2hunter2"
    place = Address("pg", f"postgresql://{name}:{word}@host/{rest}", "papers")
    assert word not in str(place)
    assert word in place.spec


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pg:http://db/rag", "must look like pg:postgresql"),
        ("qdrant:grpc://db:6334", "must look like qdrant:http"),
        ("qdrant:http://db:6333?api_key=secretsecret", "QDRANT_API_KEY"),
        ("es:db:9200", "must look like es:https"),
        ("opensearch:ftp://db", "must look like opensearch:https"),
    ],
)
def test_a_place_that_the_store_cannot_be_at(text: str, message: str) -> None:
    place = place_of(text)
    assert isinstance(place, Address)
    with pytest.raises(UsageError, match=message) as caught:
        STORES[place.store].open(place)
    assert "secretsecret" not in str(caught.value)


def test_passwords_of_search_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELASTICSEARCH_PASSWORD", "of the environment")
    for url, secret in {
        "https://me:of%20the%20url@db": "of the url",
        "https://me@db": "of the environment",
    }.items():
        store = STORES["es"].open(Address("es", url))
        assert isinstance(store, SearchEngineStore)
        assert (store._engine.user, store._engine.secret) == ("me", secret)
        assert store._engine.url == "https://db:443"
