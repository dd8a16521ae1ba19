"""What the library and the command line log: nothing by default, never a secret or a text."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from tests.scripted import ScriptedChat

from ragweave import build_graph
from ragweave.cli.logs import PlainFormatter, log_to_stderr

GIVEN = {"question": "Where is the tower?", "passages": ["It is in Paris."]}
LOGGER = logging.getLogger("ragweave")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    level = LOGGER.level
    yield
    for one in [one for one in LOGGER.handlers if isinstance(one.formatter, PlainFormatter)]:
        LOGGER.removeHandler(one)
    LOGGER.setLevel(level)


def answer() -> None:
    build_graph("concat", model=ScriptedChat(replies=["", "In Paris"])).invoke(GIVEN)


def test_the_library_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    assert any(isinstance(one, logging.NullHandler) for one in LOGGER.handlers)
    answer()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("verbosity", "there", "not_there"),
    [
        (0, [], ["concat"]),
        (1, ["concat: empty_reply"], [" took "]),
        (2, [" took ", "role answer"], []),
    ],
)
def test_verbosity(
    verbosity: int, there: list[str], not_there: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    log_to_stderr(verbosity)
    answer()
    said = capsys.readouterr().err
    assert all(text in said for text in there)
    assert not any(text in said for text in not_there)
    assert not any(text in said for text in ("tower", "Paris"))


def test_no_secret_and_no_control_character_gets_through(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log_to_stderr(0)
    LOGGER.warning("asked http://me:hunter2@host/v1 with sk-abcdefghijklmnopqrstuvwx \x1b[31m")
    said = capsys.readouterr().err
    assert "asked http" in said
    for hidden in ("hunter2", "sk-abcdefghijklmnopqrstuvwx", "\x1b"):
        assert hidden not in said


def test_the_handler_is_set_once(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr(0)
    log_to_stderr(0)
    LOGGER.warning("once")
    assert capsys.readouterr().err.count("once") == 1
