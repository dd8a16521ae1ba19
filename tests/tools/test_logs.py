"""What the library and the command line log: nothing by default, never a secret or a text."""

from __future__ import annotations

import logging

import pytest
from tests.scripted import ScriptedChat
from typer.testing import CliRunner

from ragweave import build_graph
from ragweave.cli.main import app
from ragweave.nodes.options import Options
from ragweave.nodes.step import Context
from ragweave.tools.logs import log_to_stderr, verbosity

GIVEN = {"question": "Where is the tower?", "passages": ["It is in Paris."]}
LOGGER = logging.getLogger("ragweave")


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
def test_verbosity(verbosity: int, there: list[str], not_there: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with log_to_stderr(verbosity):
        answer()
    said = capsys.readouterr().err
    assert all(text in said for text in there)
    assert not any(text in said for text in not_there)
    assert not any(text in said for text in ("tower", "Paris"))


def test_of_a_note_no_text_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    detail = {"reply": "In Paris", "dropped": ["the tower"], "kept": 3, "full": True}
    context = Context("reader", Options())
    with log_to_stderr(2):
        context.note("step_unparsed", **detail)
        context.note("answer_rejected", reason="echo")
    said = capsys.readouterr().err
    assert "reader: step_unparsed {'kept': 3, 'full': True}" in said
    assert "reader: answer_rejected {'reason': 'echo'}" in said
    assert not any(text in said for text in ("tower", "Paris"))
    assert context.notes[0]["detail"] == detail


def test_no_secret_and_no_control_character_gets_through(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with log_to_stderr(0):
        LOGGER.warning("asked http://me:hunter2@host/v1 with sk-abcdefghijklmnopqrstuvwx \x1b[31m")
    said = capsys.readouterr().err
    assert "asked http" in said
    for hidden in ("hunter2", "sk-abcdefghijklmnopqrstuvwx", "\x1b"):
        assert hidden not in said


def test_a_command_logs_while_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with log_to_stderr(2):
        LOGGER.debug("during")
    LOGGER.debug("after")
    LOGGER.warning("after")
    assert "during" in (said := capsys.readouterr().err)
    assert "after" not in said


def test_a_command_leaves_the_log_as_it_was() -> None:
    before = (LOGGER.level, list(LOGGER.handlers))
    assert CliRunner().invoke(app, ["-vv", "methods"]).exit_code == 0
    assert (LOGGER.level, LOGGER.handlers) == before


def test_another_process_learns_how_much_is_logged() -> None:
    assert verbosity() is None
    for level in (0, 1, 2):
        with log_to_stderr(level):
            assert verbosity() == level
