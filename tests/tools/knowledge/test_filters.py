"""One filter means the same in Python, on every engine; what is not a filter is an error."""

import datetime as dt
import random
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from tests import postgres_server

from ragweave import KnowledgeBase
from ragweave.errors import UsageError
from ragweave.testing.store import WordEmbeddings
from ragweave.tools.knowledge import ServedKnowledgeBase, filters
from ragweave.tools.knowledge.filters import matches, parse

VALUES = [
    *(2019, 2020, 2020.0, "2020", "2021", 3.5, "3.50", "007", "9007199254740993", "9007199254740992", 2**53, 2**53 + 1),
    *("hr", "it", "HR", True, "true", "False", "", "a'b", 'a"b', "100% %s", "ü ₂"),
    *(
        "2024-03-01",
        "2024-03-01T00:00:00Z",
        "2024-02-31",
        "2024-03-01T12:00:00+02:00",
        "1.9",
        "1.10",
        "1.10.0",
        "v1.9",
        "v2",
    ),
]
NAMES = ["year", "dept", "status", "a b", "x.y", "n'm", "ö", 'q"']
OPERANDS = [2020, "2020", 3.5, "2024-03-01", "2024-03-01T11:00:00Z", dt.date(2024, 3, 1), "v1.10", "1.9.1"]
scalars = st.sampled_from([*VALUES, dt.date(2024, 3, 1)])
metadata = st.dictionaries(
    st.sampled_from(NAMES), st.one_of(scalars, st.lists(scalars, max_size=3), st.none()), max_size=4
)
ranges = st.tuples(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), st.sampled_from(OPERANDS))
tests = st.one_of(
    scalars,
    st.lists(scalars, max_size=3),
    st.tuples(st.sampled_from(["$eq", "$ne"]), scalars).map(lambda pair: dict([pair])),
    st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(scalars, max_size=3)).map(lambda pair: dict([pair])),
    st.lists(ranges, min_size=1, max_size=2).map(dict),
    st.booleans().map(lambda there: {"$exists": there}),
)
fields = st.one_of(tests, tests.filter(lambda test: isinstance(test, dict)).map(lambda test: {"$not": test}))
some_filters = st.recursive(
    st.dictionaries(st.sampled_from(NAMES), fields, max_size=2),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["$and", "$or"]), st.lists(inner.filter(bool), min_size=1, max_size=3)).map(
            lambda pair: dict([pair])
        ),
        inner.filter(bool).map(lambda wanted: {"$not": wanted}),
    ),
    max_leaves=5,
)
MANY = settings(suppress_health_check=[*HealthCheck])


@pytest.fixture(scope="module")
def shelf() -> list[dict]:
    """120 passages' metadata."""
    rng = random.Random(3)
    value = [lambda: rng.choice(VALUES), lambda: rng.sample(VALUES, rng.randrange(3)), lambda: None]
    return [{name: rng.choice(value)() for name in rng.sample(NAMES, rng.randrange(5))} for _ in range(120)]


def wanted(shelf: list[dict], chosen: dict) -> set[int]:
    return {at for at, meta in enumerate(shelf) if matches(parse(chosen), meta)}


@MANY
@given(metadata, some_filters.filter(bool))
def test_not_is_the_opposite_and_joins_are_joins(meta: dict, chosen: dict) -> None:
    passes = matches(parse(chosen), meta)
    assert matches(parse({"$and": [chosen, chosen]}), meta) == passes
    assert matches(parse({"$not": chosen}), meta) != passes
    assert matches(parse({"$or": [chosen, {"$not": chosen}]}), meta)


@pytest.fixture(scope="module", params=["folder", "chroma", "lance", pytest.param("pg", marks=pytest.mark.loopback)])
def base(
    shelf: list[dict], tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[KnowledgeBase | ServedKnowledgeBase]:
    with ExitStack() as stack:
        place = tmp_path_factory.mktemp(request.param)
        if request.param == "folder":
            kb = stack.enter_context(KnowledgeBase.create(place, embeddings=WordEmbeddings()))
        else:
            if request.param == "pg":
                if postgres_server.binaries() is None:
                    pytest.skip("no PostgreSQL")
                place = stack.enter_context(postgres_server.postgres())
            else:
                pytest.importorskip({"chroma": "chromadb", "lance": "lancedb"}[request.param])
            kb = stack.enter_context(ServedKnowledgeBase(f"{request.param}:{place}#shelf", WordEmbeddings()))
        kb.add([Document(f"text {at}", id=str(at), metadata=meta) for at, meta in enumerate(shelf)], split=False)
        yield kb


@MANY
@given(chosen=some_filters)
def test_engines(shelf: list[dict], base: KnowledgeBase | ServedKnowledgeBase, chosen: dict) -> None:
    view = base.view(chosen)
    assert {int(doc.id) for doc in view.passages()} == wanted(shelf, chosen)
    assert len(view) == len(wanted(shelf, chosen))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"year": {"$gte": "new"}}, "compares numbers, dates"),
        ({"year": {"$between": [1, 2]}}, r"no operator '\$between'"),
        ({"year": {"$gt ": 1}}, "did you mean.*gt"),
        ({"year": {"gte": 2020}}, "no operator 'gte'"),
        ({"year": {}}, "has no operator"),
        ({"year": None}, "takes a text"),
        ({"year": {"$in": "hr"}}, "takes a list"),
        ({"year": {"$eq": [1]}}, "takes a text"),
        ({"year": {"$gt": float("nan")}}, "compares numbers"),
        ({"folder": {"$gt": 1}}, "compares numbers"),
        ({"folder": ""}, "takes a path"),
        ({"source": {"$ne": ""}}, "takes a path"),
        ({"$or": [{"dept": "hr"}, {"folder": ["/docs/hr", ""]}]}, "takes a path"),
        ({"year": {"$exists": 1}}, "true or false"),
        ({"$or": {}}, "takes a list"),
        ({"$or": []}, "takes a list"),
        ({"$and": [{}]}, "takes a filter"),
        ({"$nor": [{"a": 1}]}, "no operator"),
        ({"$where": "1"}, "no operator"),
        ({"author": {"name": "Ann"}}, "no operator 'name'"),
        ([("year", 1)], "a filter is a mapping"),
    ],
)
def test_what_is_not_a_filter_is_an_error(wrong: dict, message: str) -> None:
    with pytest.raises(UsageError, match=re.compile(message, re.DOTALL)):
        parse(wrong)


@pytest.mark.parametrize(
    ("chosen", "meta", "passes"),
    [
        ({"year": {"$gte": 2020}}, {"year": "2021"}, True),
        ({"year": {"$gte": 2020}}, {"year": "2020-03-01"}, False),
        ({"date": {"$lt": "2024-03-02"}}, {"date": "2024-03-01T23:59:59Z"}, True),
        ({"date": dt.date(2024, 3, 1)}, {"date": "2024-03-01"}, True),
        ({"release": {"$gt": "v1.9"}}, {"release": "1.10"}, True),
        ({"release": {"$gte": "1.10.0"}}, {"release": "v1.10"}, True),
        ({"release": {"$lt": "1.10.0"}}, {"release": "10.0.0.1"}, False),
        ({"dept": ["hr", "it"]}, {"dept": ["it", "x"]}, True),
        ({"dept": []}, {"dept": "hr"}, False),
        ({"dept": "hr"}, {"dept": "HR"}, False),
        ({"zip": 7}, {"zip": "007"}, False),
        ({"account": 2**53}, {"account": 2**53 + 1}, False),
        ({"status": {"$ne": "draft"}}, {}, True),
        ({"folder": "/docs/hr/"}, {"source": "/docs/hr/a/b.md"}, True),
        ({"folder": "/docs/h"}, {"source": "/docs/hr/b.md"}, False),
        ({"source": "2024"}, {"source": "2024.0"}, False),
    ],
)
def test_values_are_compared_by_what_they_say(chosen: dict, meta: dict, passes: bool) -> None:
    assert matches(parse(chosen), meta) is passes


def test_fields_say_what_can_be_filtered(tmp_path: Path) -> None:
    kb = KnowledgeBase.create(tmp_path / "kb", settings={"embedding": None})
    metas = [
        {"year": 2019},
        {"year": "2021", "dept": ["hr", "it"]},
        {"year": "soon", "dept": "hr", "due": "2024-05-01"},
    ]
    kb.add([Document(f"note {at}", metadata=meta) for at, meta in enumerate(metas)], "/docs/hr/notes")
    shown = {(field.name, field.kind): (field.passages, field.examples) for field in kb.fields()}
    assert shown["year", "number"] == (2, [2019, 2021])
    assert shown["year", "text"] == (1, ["soon"])
    assert shown["dept", "text"] == (2, ["hr", "it"])
    assert kb.values("year") == [2019, 2021, "soon"]
    assert kb.values("folder") == ["/docs", "/docs/hr"]
    with pytest.raises(UsageError, match="'new' is a text, but the field holds times such as '2024-05-01'"):
        kb.as_retriever(filter={"due": "new"})
    view = kb.view({"year": {"$lt": 2022}})
    assert view.values("dept") == ["hr", "it"]
    assert "due" not in {field.name for field in view.fields()}
    with pytest.raises(UsageError, match="no passage has a field 'due'"):
        view.as_retriever(filter={"due": "2024-05-01"})
    kb.delete(kb.passages()[1].id)
    assert kb.values("dept") == ["hr"]
    kb.rebuild()
    assert kb.values("year") == [2019, "soon"]


def test_files_and_folders_may_be_named_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real" / "hr").mkdir(parents=True)
    (tmp_path / "docs").symlink_to("real")
    for name in ("real/hr/a.md", "real/b.md"):
        (tmp_path / name).write_text("A note.")
    monkeypatch.chdir(tmp_path)
    kb = KnowledgeBase.create("kb", settings={"embedding": None})
    kb.index_paths(["docs/hr", "docs/b.md"])
    in_hr, not_in_hr = (kb.view({"folder": test}).values("source") for test in ("docs/hr/", {"$ne": "docs/hr"}))
    assert (in_hr, not_in_hr) == ([str(tmp_path / "docs/hr/a.md")], [str(tmp_path / "docs/b.md")])
    assert kb.view({"source": "docs/b.md"}).values("source") == not_in_hr


def test_a_number_is_not_compared_with_versions(tmp_path: Path) -> None:
    kb = KnowledgeBase.create(tmp_path / "kb", settings={"embedding": None})
    kb.add([Document("old", metadata={"release": "1.9"}), Document("new", metadata={"release": "1.10"})])
    (new,) = kb.as_retriever(filter={"release": {"$gte": "v1.10"}}).invoke("old new")
    assert new.page_content == "new"
    kb.as_retriever(filter={"release": {"$gte": 1.5}})  # they may be numbers
    kb.add(Document("newest", metadata={"release": "1.10.2"}))
    with pytest.raises(
        UsageError, match=r"1.5 is a number, but the field holds versions such as .*: write it like v1.10"
    ):
        kb.as_retriever(filter={"release": {"$gte": 1.5}})


def test_a_stored_value_is_shown_as_it_is_read() -> None:
    for value in VALUES:
        key = filters.key_of(value)
        assert filters.key_of(filters.shown(key)) == key
