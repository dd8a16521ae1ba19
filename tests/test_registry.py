"""Things by name: ours, a session's, and other packages', loaded when they are asked for."""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ragweave.errors import UsageError
from ragweave.registry import Registry, forget_packages
from tests.packages import installed, lay_package

GROUP = "ragweave.test_things"


@dataclass(frozen=True)
class Thing:
    name: str


def registry() -> Registry[Thing]:
    return Registry(GROUP, Thing, "thing", lambda: (Thing("ours"), Thing("second")))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    with installed(tmp_path) as site:
        yield site


def lay(site: Path, package: str, source: str, **points: str) -> None:
    lay_package(site, package, source, {GROUP: {name: f"{package}:{value}" for name, value in points.items()}})
    forget_packages()


GOOD = f"from {__name__} import Thing\nONE = Thing('one')\nTWO = Thing('two')\n"


@pytest.fixture(autouse=True)
def _importable() -> None:
    sys.modules.setdefault(__name__, sys.modules[Thing.__module__])


def test_ours_come_first_and_others_are_loaded_when_asked_for(site: Path) -> None:
    lay(site, "outside", GOOD, one="ONE", two="TWO")
    things = registry()
    assert "one" in things
    assert things.names() == ["ours", "second", "one", "two"]
    assert things["ours"] == Thing("ours")
    assert "outside" not in sys.modules
    assert things["one"] == Thing("one")
    assert list(things) == ["ours", "second", "one", "two"]
    assert len(things) == 4
    assert things.others() == {"one": "outside 0.2", "two": "outside 0.2"}
    assert things.package("ours") == "ragweave"
    assert things.ours() == [Thing("ours"), Thing("second")]


@pytest.mark.parametrize(
    ("source", "warning"),
    [
        ("raise RuntimeError('no engine\\nhere')", "RuntimeError: no engine here"),
        ("ONE = 5", "a thing must be declared as a Thing, not int"),
        (GOOD.replace("'one'", "'other'"), "it is declared as 'other'"),
        ("", "AttributeError"),
        ("def", "SyntaxError"),
    ],
)
def test_what_is_broken_is_left_out_with_one_line(
    site: Path, caplog: pytest.LogCaptureFixture, source: str, warning: str
) -> None:
    lay(site, "shaky", source, one="ONE")
    things = registry()
    with caplog.at_level(logging.WARNING, logger="ragweave"):
        assert list(things) == ["ours", "second"]
        assert list(things) == ["ours", "second"]
    (record,) = caplog.records
    assert "'one' of the package shaky 0.2 (shaky:ONE) can't be loaded" in record.getMessage()
    assert warning in record.getMessage()
    assert "\n" not in record.getMessage()
    with pytest.raises(UsageError, match=r"shaky 0\.2"):
        things["one"]
    with pytest.raises(UsageError, match=r"shaky 0\.2"):
        things.named("one")


def test_packages_that_were_forgotten_are_looked_up_again(site: Path) -> None:
    lay(site, "first", "import lacking\n" + GOOD, one="ONE")
    lay(site, "second", GOOD, two="TWO")
    things = registry()
    assert things["two"] == Thing("two")
    with pytest.raises(UsageError, match="No module named 'lacking'"):
        things["one"]
    (site / "lacking.py").write_text("")
    shutil.rmtree(site / "second-0.2.dist-info")
    forget_packages()
    assert things["one"] == Thing("one")
    assert list(things) == ["ours", "second", "one"]
    with pytest.raises(KeyError):
        things["two"]


def test_a_session_adds_and_takes_away(site: Path) -> None:
    lay(site, "outside", GOOD, one="ONE")
    things = registry()
    mine = things.register(Thing("mine"))
    assert things.register(Thing("mine")) == mine
    assert things["mine"] == mine
    assert things.package("mine") == "this session"
    assert list(things) == ["ours", "second", "mine", "one"]
    for name, package in (("ours", "ragweave"), ("one", "outside 0.2")):
        with pytest.raises(UsageError, match=f"is taken by {package}"):
            things.register(Thing(name))
    with pytest.raises(UsageError, match="declared as a Thing, not str"):
        things.register("mine")  # type: ignore[arg-type]
    things.unregister("mine")
    assert "mine" not in things


def test_an_unknown_name_lists_the_names_and_the_closest() -> None:
    with pytest.raises(UsageError, match=r"unknown thing 'secund' .did you mean 'second'"):
        registry().named("secund")
    with pytest.raises(KeyError):
        registry()["nothing"]
    assert registry().get("nothing") is None
