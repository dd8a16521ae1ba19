"""The README's code runs, its table and its picture are what the package says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(README.read_text("utf-8")) if kind == language]


@pytest.mark.parametrize("code", blocks("python"), ids=lambda code: code.splitlines()[-1][:40])
def test_code_runs(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec", dont_inherit=True), {})
    if "Mars" in code:
        assert capsys.readouterr().out.lower().startswith(("2 answered 1", "two answered 1"))


def test_the_method_table_is_current() -> None:
    from ragweave import METHODS

    rows = [
        "| name | what it does | model calls, best to worst | paper |",
        "|---|---|---|---|",
        *(
            f"| `{one.name}` | {one.summary} | {calls(one.best, one.worst)} | {one.paper} |"
            for one in METHODS.values()
        ),
    ]
    written = README.read_text("utf-8").split("<!-- methods: begin -->\n")[1]
    assert written.split("<!-- methods: end -->")[0].split("\n") == ["", *rows, "", ""]


def calls(best: str, worst: str) -> str:
    return best if best == worst else f"{best} to {worst}"


def test_the_picture_is_current() -> None:
    from ragweave import build_graph

    (picture,) = blocks("mermaid")
    assert picture.strip() == build_graph("concat_pf").get_graph().draw_mermaid().strip()
