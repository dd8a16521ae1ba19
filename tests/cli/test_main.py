"""The command line as a whole: help, version, `methods`, interruptions."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import run
from typer.main import get_command

from ragweave.cli.main import app
from ragweave.graphs import METHODS

COMMANDS = ("index", "ask", "chat", "serve", "methods", "eval", "report", "reproduce", "label", "train", "doctor")


def test_bare_ragweave_prints_a_readable_help() -> None:
    done = run()
    assert done.returncode == 0
    assert "Start with `ragweave index FILES`" in done.stdout
    lines = done.stdout.splitlines()
    assert all(len(line) <= 100 for line in lines)
    for command in COMMANDS:
        assert any(line.strip().startswith(f"{command} ") for line in lines), command


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_explains_its_options(command: str) -> None:
    done = run(command, "--help")
    assert done.returncode == 0
    assert f"Usage: ragweave {command}" in done.stdout


def test_the_options_of_all_commands_are_few() -> None:
    commands: Any = get_command(app)
    listed = [commands.get_command(None, name) for name in commands.list_commands(None)]
    flat = [command for entry in listed for command in getattr(entry, "commands", {"": entry}).values()]
    every = [option for command in flat for option in command.params if option.param_type_name == "option"]
    assert len(every) <= 170


@pytest.mark.parametrize(
    ("line", "completions"), [("rep", "report reproduce"), ("ask --method search", "search_r1 search_o1")]
)
def test_the_shell_completes_commands_and_methods(line: str, completions: str) -> None:
    asked = {
        "_RAGWEAVE_COMPLETE": "complete_bash",
        "COMP_WORDS": f"ragweave {line}",
        "COMP_CWORD": str(len(line.split())),
    }
    done = subprocess.run(
        [sys.executable, "-m", "ragweave"], env={**os.environ, **asked}, capture_output=True, text=True
    )
    assert done.stdout.split() == completions.split()


def test_the_version() -> None:
    assert run("--version").stdout.startswith("ragweave ")


def test_methods_are_listed() -> None:
    done = run("methods")
    assert all(f" {name} " in done.stdout for name in METHODS)
    facts = json.loads(run("methods", "--json").stdout)
    assert [fact["name"] for fact in facts] == list(METHODS)


def test_one_method_shows_options_calls_and_graph() -> None:
    done = run("methods", "concat_pf")
    assert "Model calls with the default options: 1 to 6" in done.stdout
    assert re.search(r"concat_vote +end \(answered\), post_fusion \(unknown\)", done.stdout)
    assert "Passages per query" in done.stdout
    facts = json.loads(run("methods", "concat_pf", "--json").stdout)
    assert (facts["calls"], facts["options"]["k"]) == ({"best": 1, "worst": 6}, 5)
    assert "did you mean 'concat_pf'" in run("methods", "concat_fp").stderr


@pytest.mark.parametrize("name", list(METHODS))
def test_each_graph_is_drawn(name: str, tmp_path: Path) -> None:
    assert run("methods", name, "--svg", str(tmp_path / "graph.svg")).returncode == 0
    picture = (tmp_path / "graph.svg").read_text("utf-8")
    assert picture.startswith("<svg")
    assert ">begin</text>" in picture
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize("kind", ["metrics", "datasets", "models", "filters", "chunkers"])
def test_what_else_has_a_name_is_listed(kind: str) -> None:
    assert len(run("methods", "--kind", kind).stdout.splitlines()) > 5
    assert run("methods", "x", "--kind", kind).returncode == 2


def test_a_reader_that_closes_the_pipe_sees_no_traceback() -> None:
    command = subprocess.Popen(
        [sys.executable, "-m", "ragweave", "methods", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert command.stdout is not None and command.stderr is not None
    command.stdout.close()
    assert command.wait(timeout=120) == 1
    assert command.stderr.read() == b""
    command.stderr.close()
