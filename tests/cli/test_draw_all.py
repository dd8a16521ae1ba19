"""The diagrams of README and docs are drawn from the graphs, and are current."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragweave import METHODS
from ragweave.cli.methods import draw, stale, write
from ragweave.errors import UsageError
from ragweave.graphs.build import drawable

ROOT = Path(__file__).parents[2]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder whose README has an old picture."""
    (tmp_path / "README.md").write_text("# A\n\n```mermaid\nold\n```\n\ntext\n", "utf-8")
    return tmp_path


def test_the_repositorys_diagrams_are_current() -> None:
    assert not stale(ROOT), "run `ragweave draw --all`"


def test_it_draws_every_method_and_the_readme_and_then_nothing(copy: Path) -> None:
    assert len(write(copy)) == len(METHODS) + 1
    text = (copy / "docs/diagrams/concat_pf.mmd").read_text("utf-8")
    assert text == drawable("concat_pf").get_graph().draw_mermaid()
    readme = (copy / "README.md").read_text("utf-8")
    assert readme == f"# A\n\n```mermaid\n{text.rstrip()}\n```\n\ntext\n"
    assert write(copy) == []


def test_check_names_what_is_stale_and_exits_1(
    copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import typer

    monkeypatch.chdir(copy)
    write(copy)
    draw(every=True, check=True)
    (copy / "docs/diagrams/react.mmd").write_text("old", "utf-8")
    (copy / "docs/diagrams/gone.mmd").write_text("a method that is no more", "utf-8")
    with pytest.raises(typer.Exit) as left:
        draw(every=True, check=True)
    assert left.value.exit_code == 1
    said = capsys.readouterr().err
    assert "react.mmd" in said
    assert "gone.mmd" in said
    draw(every=True)
    assert stale(copy) == []
    assert not (copy / "docs/diagrams/gone.mmd").exists()


def test_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for mistake in ({}, {"method": "concat", "every": True}, {"method": "concat", "check": True}):
        with pytest.raises(UsageError, match="--all"):
            draw(**mistake)
    with pytest.raises(UsageError, match="exactly one mermaid block"):
        draw(every=True)
    with pytest.raises(UsageError, match="no such folder"):
        draw("concat", svg=Path("nowhere/g.svg"))
    draw("concat", svg=Path("g.svg"))
    assert Path("g.svg").read_text("utf-8").startswith("<svg")
