"""The front page: what it shows is there, says nothing of the machine, and agrees with the package."""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
ASSETS = ROOT / "docs" / "assets"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_every_picture_and_file_that_readme_names_is_there() -> None:
    named = re.findall(r"\]\(([^)\s#]+)", README) + re.findall(r'(?:src|srcset)="([^"]+)"', README)
    files = [one for one in named if not one.startswith(("http", "../../actions/"))]
    assert len(files) > 5
    assert [one for one in files if not (ROOT / one).is_file()] == []


def test_the_pictures_hold_no_script_and_nothing_of_the_machine() -> None:
    for path in [*ASSETS.glob("*.svg"), ASSETS / "session.cast"]:
        text = path.read_text("utf-8")
        assert not re.search(r"<script|href=|/(?:home|root|tmp|work|Users)/", text), path
    for path in ASSETS.glob("*.svg"):
        ET.fromstring(path.read_text("utf-8"))
    assert all(path.stat().st_size < 150_000 for path in ASSETS.iterdir())


def test_the_session_is_one_that_answers_and_quotes() -> None:
    events = [json.loads(line) for line in (ASSETS / "session.cast").read_text().splitlines()[1:]]
    said = "".join(text for _, _, text in events)
    assert said.count("ragweave ask") == 2
    assert said.count("[1] “") == 2
    assert "Traceback" not in said


def test_citation_and_readme_name_the_version_and_the_authors() -> None:
    cff = (ROOT / "CITATION.cff").read_text("utf-8")
    version = PROJECT["version"]
    assert f"version: {version}\n" in cff
    assert f"name: {PROJECT['authors'][0]['name']}\n" in cff
    assert f"version = {{{version}}}" in README


def test_what_is_said_of_others_has_a_link() -> None:
    text = (ROOT / "docs" / "comparison.md").read_text("utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    others = [cell for row in rows[1:] for cell in row[2:]]
    assert len(others) == 4 * len(rows[1:])
    assert [cell for cell in others if cell != "–" and "](https://" not in cell] == []


@pytest.fixture(scope="module")
def cast() -> ModuleType:
    pytest.importorskip("pyte")
    spec = importlib.util.spec_from_file_location("cast", ROOT / "docs" / "cast.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_recording_becomes_a_picture_line_by_line(cast: ModuleType, tmp_path: Path) -> None:
    lines = [
        {"version": 2, "width": 20, "height": 3},
        [0.5, "o", "\x1b[1;32m$\x1b[0m a<b\r\n"],
        [90.0, "o", "one\r\n"],
        [91.0, "o", "\x1b[1A\x1b[2Ktwo\r\n"],
    ]
    path = tmp_path / "a.cast"
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    picture = cast.animated(path)
    ET.fromstring(picture)
    shown = list(cast.lines_of(20, 3, cast.paced(lines[1:])))
    assert [re.sub("<[^>]+>", "", one.drawn) for one in shown] == ["one", "$a&lt;b", "two"]
    assert max(one.end for one in shown) < 0.5 + 2 * cast.LONGEST + cast.END + 0.1
    assert picture.count('class="l last"') == 2  # what stands at the end, for less motion
    assert "fill:#7ee787;font-weight:700" in picture


def test_the_picture_is_the_recording_s(cast: ModuleType) -> None:
    drawn = cast.animated(ASSETS / "session.cast")
    assert drawn == (ASSETS / "session.svg").read_text("utf-8"), "run: make pictures"
