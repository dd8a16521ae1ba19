"""The wheel holds the whole package, and works without the repository around it.

`.ci/wheel` does the same in an empty environment, with its own installed dependencies.
"""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


def built(folder: Path, address: str = "") -> Path:
    """Build the wheel, with an address of the repository."""
    builders = pytest.importorskip("hatchling.builders.wheel", reason="the wheel needs hatchling")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    settings["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"] = address
    (path,) = builders.WheelBuilder(str(ROOT), config=settings).build(directory=str(folder))
    return Path(path)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"))


def test_everything_of_the_package_is_in_it_and_in_the_source_distribution(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    package = {
        path.relative_to(source).as_posix()
        for path in (source / "ragweave").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "ragweave/py.typed" in names
    assert names == package
    builders = pytest.importorskip("hatchling.builders.sdist")
    (packed,) = builders.SdistBuilder(str(ROOT)).build(directory=str(tmp_path))
    with tarfile.open(packed) as sources:
        paths = {name.partition("/")[2] for name in sources.getnames()}
    assert {f"src/{name}" for name in package} | {"hatch_build.py", "NOTICE", "README.md"} <= paths


def test_a_release_needs_the_address_of_the_repository_from_which_all_links_follow(wheel: Path, tmp_path: Path) -> None:
    problems = runpy.run_path(str(ROOT / ".ci" / "release.py"))["problems"]
    assert any("`repository`, the address, is not set" in problem for problem in problems(wheel))
    address = "https://host.example/owner/name"
    linked = built(tmp_path, address)
    assert [problem for problem in problems(linked, "v9.9.9") if "CHANGELOG" not in problem] == [
        f"the tag is v9.9.9, the version {metadata.version('ragweave')}"
    ]
    with zipfile.ZipFile(linked) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        text = archive.read(name).decode()
    links = re.findall(rf"\]\({address}/(blob|tree|raw)/v[^/]+/([^)#]+)", text)
    assert ("raw", "docs/assets/session.svg") in links
    assert [path for _, path in links if not (ROOT / path).exists()] == []


def test_vectors_need_no_torch() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    todo, seen = [*project["dependencies"], *extras["chroma"], *extras["offline"]], set[str]()
    while todo:
        requirement = Requirement(todo.pop())
        if str(requirement) not in seen:
            seen.add(str(requirement))
            with suppress(metadata.PackageNotFoundError):  # for another system, or not installed
                needs = [Requirement(line) for line in metadata.requires(requirement.name) or ()]
                wanted = ({"extra": extra} for extra in (*requirement.extras, ""))
                missing = [(need, given) for given in wanted for need in needs]
                todo += [str(need) for need, given in missing if not need.marker or need.marker.evaluate(given)]
    names = {Requirement(text).name for text in seen}
    assert "langgraph" in names and "torch" not in names


@pytest.mark.nightly
def test_it_works_where_nothing_else_of_ours_is(wheel: Path, tmp_path: Path) -> None:
    site, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    done = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "smoke.py")],
        cwd=empty,
        env={**os.environ, "PYTHONPATH": str(site), "RAGWEAVE_HISTORY": "off"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"works from {site / 'ragweave'}" in done.stdout
