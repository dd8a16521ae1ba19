"""The notebooks: few, kept with their outputs and a picture, and running on the embedded default."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from tests.extras import needs

needs("IPython")

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def cells(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_outputs_and_a_picture(path: Path) -> None:
    outputs = [output for cell in cells(path) for output in cell["outputs"]]
    assert any("image/svg+xml" in output.get("data", {}) for output in outputs)
    assert not [output for output in outputs if output["output_type"] == "error"]
    assert not [word for word in ("/home/", "/root/", "/tmp/") if word in path.read_text("utf-8")]


@pytest.mark.nightly
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAGWEAVE_MODEL", raising=False)
    names: dict[str, Any] = {"__name__": "notebook"}
    for cell in cells(path):
        code = compile("".join(cell["source"]), path.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        done = eval(code, names)
        if inspect.iscoroutine(done):
            asyncio.run(done)


def test_there_are_few() -> None:
    assert 1 <= len(NOTEBOOKS) <= 7
