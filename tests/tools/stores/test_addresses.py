"""Addresses of knowledge bases behind a server, and what their errors show."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.errors import UsageError
from ragweave.tools.stores import STORES, Address, place_of
from ragweave.tools.stores.address import hidden
from ragweave.tools.stores.search_engine import SearchEngineStore

MODULES = {"es": "elasticsearch", "opensearch": "opensearchpy", "qdrant": "qdrant_client"}


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


def test_a_folder_may_be_in_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert place_of("~/kb") == tmp_path / "kb"
    assert place_of("~nobody-of-this-name/kb") == Path("~nobody-of-this-name/kb")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "needs a folder or an address"),
        (" ", "needs a folder or an address"),
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


ODD = st.text(st.sampled_from("?#%@/:&=[]{} \n\x00\udcffé7Zq"), max_size=6)


def _told(text: str) -> Iterator[str]:
    """Give all that is said of an address."""
    try:
        place = place_of(text)
        yield from (str(place), repr(place), hidden(text))
        if isinstance(place, Address):
            STORES[place.store].open(place)
    except UsageError as error:
        shown: BaseException | None = error
        while shown is not None:
            yield str(shown)
            shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)


@pytest.mark.parametrize("collection", ["", "#papers", "#Papers!"])
@pytest.mark.parametrize(
    "form",
    [
        "pg:postgresql://me:{}@host/db",
        "pg:postgresql://me:{}@host:1,other:2/db?sslmode=require",
        "es:https://me:{}@host:9200/path",
        "opensearch:https://me:{}@host:92x0",
        "qdrant:http://me:{}@host:6333",
        "postgresql://me:{}@host/db",
        "nothing://me:{}@host/db",
    ],
)
@given(ODD, ODD)
def test_no_password_is_told(form: str, collection: str, before: str, after: str) -> None:
    text = form.format(f"{before}hunter2{after}") + collection
    for told in _told(text):
        assert "hunter2" not in told


@pytest.mark.parametrize(
    "form", ["pg:postgresql:///db?user=me&password={}", "postgresql://h?password={}"]
)
@given(ODD, ODD)
def test_no_password_among_the_settings_is_told(form: str, before: str, after: str) -> None:
    password = quote(f"{before}hunter2{after}", safe="@/:?%", errors="replace")
    for told in _told(form.format(password) + "#papers"):
        assert "hunter2" not in told


@given(ODD, ODD)
def test_a_password_is_noticed_whatever_it_holds(before: str, after: str) -> None:
    password = f"{before}hunter2{after}"
    place = Address.parse(f"pg:postgresql://me:{password}@host/db#papers")
    assert place.has_password
    assert password in place.passwords


@pytest.mark.skipif(find_spec("psycopg") is None, reason="needs ragweave[postgres]")
@pytest.mark.parametrize("password", ["hun?ter2", "hun#ter2", "hun%25ter2"])
def test_a_password_that_postgresql_takes_stays_one(password: str) -> None:
    place = Address.parse(f"pg:postgresql://me:{password}@host/db#papers")
    STORES["pg"].open(place)
    assert (place.collection, str(place)) == ("papers", "pg:postgresql://host/db#papers")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("es:https://me:of/the#u?l@db#a", "write @ as %40, / as %2F, . as %3F and # as %23"),
        ("es:https://me:p@ss/word@db#a", "write @ as %40"),
        ("es:https://me:p@ss?word@db#a", "write @ as %40"),
        ("es:https://me:p@ss#word@db#a", "write @ as %40"),
        ("qdrant:http://me:hun/ter2@host:6333#a", "/ as %2F"),
        ("es:https://me:7,hun/ter2@host#a", "/ as %2F"),
        ("pg:postgresql://me:p@ss/word@host/db#a", "write @ as %40, / as %2F"),
        ("pg:postgresql://me:hun/ter2@host/db#a", "write @ as %40, / as %2F"),
        ("pg:postgresql://me:p@ss?word=x@host/db#a", "write @ as %40, / as %2F"),
        ("pg:postgresql://host?user=me@corp#a", "write @ as %40, / as %2F"),
        ("es:http://host:92x0#a", r"must look like es:https://HOST:PORT#COLLECTION \(Port"),
        ("qdrant:http://[::1#a", r"must look like qdrant:.*\(Invalid IPv6 URL\)"),
        ("opensearch:https://host:99999#a", "Port out of range"),
        ("pg:postgresql://[::1/db#a", "cannot be read: .*IPv6 host address"),
        ("pg:postgresql://me:a@b@host/db#a", "write @ as %40"),
        ("pg:postgresql://me:hunter%2@host/db#a", "% is written %25"),
    ],
)
def test_a_mistyped_url_is_told(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        place = place_of(text)
        assert isinstance(place, Address)
        STORES[place.store].open(place)


@pytest.mark.parametrize(
    ("text", "login", "bare", "shown"),
    [
        ("es:https://h/es@prod", "", "https://h/es@prod", "https://***@prod"),
        ("es:https://me@h/es@prod", "me", "https://h/es@prod", "https://***@prod"),
        (
            "es:https://me:pw@h:9200?ca_certs=/team@corp/ca.pem",
            "me:pw",
            "https://h:9200?ca_certs=/team@corp/ca.pem",
            "https://***@corp/ca.pem",
        ),
        ("qdrant:https://h:6333/pre@x", "", "https://h:6333/pre@x", "https://***@x"),
        ("pg:postgresql://h/db?user=me@c", "", "postgresql://h/db?user=me@c", "postgresql://***@c"),
        (
            "pg:postgresql://me:pw@h?application_name=a@b",
            "me:pw",
            "postgresql://h?application_name=a@b",
            "postgresql://***@b",
        ),
        ("pg:postgresql://me:h?n@h/db", "me:h?n", "postgresql://h/db", "postgresql://h/db"),
    ],
)
def test_an_at_sign_behind_the_host_changes_no_host(
    text: str, login: str, bare: str, shown: str
) -> None:
    place = Address.parse(f"{text}#papers")
    assert (place.login, place.bare) == (login, bare)
    assert str(place) == f"{place.store}:{shown}#papers"
    store = STORES[place.store].open(place)
    if isinstance(store, SearchEngineStore):
        assert store._engine.url.startswith(("https://h:443/es@prod", "https://h:9200"))
    if "pw" in login:
        assert "pw" in place.passwords


@pytest.mark.skipif(find_spec("elasticsearch") is None, reason="needs ragweave[elasticsearch]")
def test_a_setting_that_the_client_refuses_is_told() -> None:
    store = STORES["es"].open(Address.parse("es:http://127.0.0.1:9?ca_certs=/none.pem#a"))
    with pytest.raises(UsageError, match="cannot be used: TLS options require"):
        store.record("manifest")


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("es:https://h?ca_cert=/secretplace.pem", r"'ca_cert' \(did you mean 'ca_certs'\?\)"),
        ("opensearch:https://h?ca_certs=/a&verify_certs=secretplace", "setting 'verify_certs'"),
        ("es:https://me:pw@h?timeout=", "'timeout' in the URL; the only ones are: ca_certs"),
        ("es:https://me:7?secretplace=@h", "unknown setting in the URL"),
        ("qdrant:http://h:6333?timeout=secretplace", "'timeout' in the URL; there are none"),
    ],
)
def test_a_setting_that_there_is_none_of_is_told_without_its_value(text: str, message: str) -> None:
    place = place_of(text)
    assert isinstance(place, Address)
    store = STORES[place.store]
    if not find_spec(MODULES[place.store]):
        pytest.skip(f"{place.store} is not installed")
    with pytest.raises(UsageError, match=message) as caught:
        store.open(place)
    assert "secretplace" not in str(caught.value)


def test_passwords_of_search_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELASTICSEARCH_PASSWORD", "of the environment")
    for url, secret in {
        "https://me:of%20the%20url@db": "of the url",
        "https://me:of@the%2Furl@db": "of@the/url",
        "https://me@db": "of the environment",
    }.items():
        store = STORES["es"].open(Address("es", url))
        assert isinstance(store, SearchEngineStore)
        assert (store._engine.user, store._engine.secret) == ("me", secret)
        assert store._engine.url == "https://db:443"
