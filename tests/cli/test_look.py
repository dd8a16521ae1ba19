from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.command import COMMAND, Run

import ragweave as package
from ragweave.cli.methods import draw
from ragweave.cli.screen import loading
from ragweave.errors import UsageError
from ragweave.graphs import METHODS
from ragweave.graphs.method import parse_options


def test_version_and_help(ragweave: Run) -> None:
    assert ragweave("--version").stdout.strip() == f"ragweave {package.__version__}"
    assert {"index", "ask", "methods", "draw"} <= set(ragweave("--help").stdout.split())


def test_methods_lists_all_with_calls_and_paper(ragweave: Run) -> None:
    text = ragweave("methods").stdout
    facts = json.loads(ragweave("methods", "--json").stdout)
    assert [one["name"] for one in facts] == list(METHODS)
    for method in METHODS.values():
        assert method.name in text
        assert method.best in text
    assert next(one for one in facts if one["name"] == "concat")["options"]["k"] == 5


def test_draw_is_mermaid_and_ascii(ragweave: Run) -> None:
    mermaid = ragweave("draw", "concat_pf").stdout
    assert "concat_vote -. &nbsp;unknown&nbsp; .-> post_fusion;" in mermaid
    drawn = ragweave("draw", "concat", "--ascii").stdout
    assert "| concat |" in drawn
    assert "| vote |" in drawn


@pytest.mark.skipif(not shutil.which("dot"), reason="Graphviz is not installed")
def test_draw_png_with_graphviz(ragweave: Run, tmp_path: Path) -> None:
    assert ragweave("draw", "concat", "--png", "g.png", cwd=tmp_path).returncode == 0
    assert (tmp_path / "g.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.skipif(not shutil.which("sh"), reason="there is no shell")
def test_draw_writes_both_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    renderer = tmp_path / "dot"
    renderer.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\necho png > "$2"\n')
    renderer.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    draw("concat", svg=tmp_path / "a.svg", png=tmp_path / "b.png")
    assert (tmp_path / "a.svg").read_text("utf-8").startswith("<svg")
    assert (tmp_path / "b.png").read_text("utf-8") == "png\n"


def test_draw_png_without_a_renderer_says_what_to_install(ragweave: Run, tmp_path: Path) -> None:
    done = ragweave("draw", "concat", "--png", "g.png", cwd=tmp_path, env={"PATH": ""})
    assert done.returncode == 2
    assert "Graphviz" in done.stderr
    assert not (tmp_path / "g.png").exists()


def test_a_closed_pipe_is_no_error() -> None:
    methods = subprocess.Popen(
        [*COMMAND, "methods"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert methods.stdout is not None
    methods.stdout.close()
    _, said = methods.communicate(timeout=60)
    assert "Traceback" not in said


@pytest.mark.skipif(os.name == "nt", reason="a shell closes the stream")
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&-"])
def test_a_stream_closed_from_the_start_is_no_error(closed: str) -> None:
    code = "from ragweave.cli import run; run()"
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", code]
    asked = ("ask", "Who?", "-m", "direct", "--model", "extractive?similarity=lexical")
    done = subprocess.run([*command, *asked], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("Answer: Unknown" in done.stdout) == (not closed.startswith(">"))


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['ragweave', '--help']\n"
        "from ragweave.cli.main import run\n"
        "try: run()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'chromadb', 'openai', 'langgraph', 'langchain_core', 'langchain'}\n"
        "heavy = (heavy | {'numpy', 'pydantic', 'bm25s'}) & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_garbage_is_collected_while_a_command_loads() -> None:
    assert gc.isenabled()
    with pytest.raises(UsageError), loading():
        assert not gc.isenabled()
        raise UsageError("no such model")
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_option_values_are_typed() -> None:
    given = ["k=8", "timeout=2.5", "prompt_tokens=none", "answer-type=long", "order=reversed"]
    assert parse_options(given, METHODS["concat"]) == {
        "k": 8,
        "timeout": 2.5,
        "prompt_tokens": None,
        "answer_type": "long",
        "order": "reversed",
    }
    assert parse_options(["strategy=none"], METHODS["adaptive_rag"]) == {"strategy": "none"}
    assert parse_options(["k=none"], METHODS["concat"]) == {"k": None}
    assert parse_options(["retrieve=true"], METHODS["direct"]) == {"retrieve": True}
    with pytest.raises(UsageError, match="name=value"):
        parse_options(["=3"], METHODS["concat"])


def test_one_method_in_full(ragweave: Run) -> None:
    said = ragweave("methods", "filco").stdout
    for part in (
        "Only the sentences that help",
        "Paper: Wang et al. 2023",
        "granularity",
        "samples",
    ):
        assert part in said
    assert json.loads(ragweave("methods", "filco", "--json").stdout)["name"] == "filco"
    wrong = ragweave("methods", "filko")
    assert wrong.returncode == 2
    assert "filco" in wrong.stderr
