"""README, CONTRIBUTING and docs: their code runs, what is generated is current, and the site builds offline."""

from __future__ import annotations

import gc
import importlib.util
import re
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest
import typer
import yaml
from typer.main import get_command

import ragweave
from ragweave import METHODS, build_graph
from ragweave.cli.main import app
from ragweave.testing import RecordingRetriever, Script, ScriptedModel

ROOT = Path(__file__).parents[2]
SOURCE = Path(ragweave.__file__).parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SKILL = ROOT / "skills" / "ragweave" / "SKILL.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"\]\((?!https?:|\.\./\.\./)([^)#\s]+)")


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
@pytest.mark.parametrize(
    "page", [one for one in (*PAGES, SKILL) if BLOCK.search(one.read_text("utf-8"))], ids=lambda one: one.name
)
def test_the_code_of_a_page_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    for block in BLOCK.findall(page.read_text("utf-8")):
        exec(compile(block, page.name, "exec", dont_inherit=True), vars(module))


@pytest.mark.parametrize("page", [*PAGES, SKILL], ids=lambda one: one.name)
def test_links_lead_to_files(page: Path) -> None:
    links = FILE.findall(page.read_text("utf-8"))
    assert [one for one in links if not (page.parent / one).exists()] == []


def test_readme_is_short_and_names_every_method() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.encode()) <= 8_000
    assert [one.name for one in METHODS.ours() if f"`{one.name}`" not in text] == []


def test_the_skill_names_methods_and_commands_that_exist() -> None:
    text = SKILL.read_text("utf-8")
    assert yaml.safe_load(text.split("---")[1]).keys() == {"name", "description"}
    methods = re.search(r"## Choose a method\n(.*?)\n## ", text, re.S)
    assert methods is not None
    assert set(re.findall(r"`(\w+)`", methods[1])) <= set(METHODS)
    listed: Any = get_command(app)
    assert set(re.findall(r"^ragweave (\w+)", text, re.M)) <= set(listed.list_commands(None))


def test_commands_and_options_in_the_pages_exist() -> None:
    """A command stands at the start of a line or of a code span."""
    group: Any = get_command(app)
    context = typer.Context(group)
    unknown = []
    for page in [*PAGES, SKILL]:
        for words in re.findall(r"(?:^|`)ragweave ([a-z]+ [^\n`]*|[a-z]+(?=`))", page.read_text("utf-8"), re.M):
            name, _, rest = words.partition("#")[0].partition(" ")
            command = group.get_command(context, name) if name in group.list_commands(context) else None
            options = (
                {option for one in command.params for option in (*one.opts, *one.secondary_opts)} if command else ()
            )
            given = re.findall(r"(?<!\S)--?[a-z][\w-]*", rest.partition(" && ")[0])
            if command is None or not set(given) <= {*options}:
                unknown.append(f"{page.name}: ragweave {words}")
    assert unknown == []


def test_docs_stay_short() -> None:
    prose = [
        re.sub(r"^(```|~~~).*?^\1$|^\|[^\n]*$", "", page.read_text("utf-8"), flags=re.S | re.M) for page in PAGES[2:]
    ]
    assert sum(len(one.split()) for one in prose) <= 14_000


SCRIPTS: dict[str, Script] = {
    "crag": {"grade": "Ambiguous", "keywords": "bridge, Alden", "refine": "1", "answer": "Ada Brenner"},
    "self_ask": ["Follow up: Who built it?", "Ada Brenner", "So the final answer is: Ada Brenner"],
    "blendfilter": lambda call: "1" if call.node == "choose" else "So the answer is Ada Brenner",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_more_files_run_for_a_question_than_the_page_says(name: str) -> None:
    said = re.search(rf"`{name}` (?:runs code )?of (\d+)", (ROOT / "docs" / "extend.md").read_text("utf-8"))
    graph = build_graph(name, model=ScriptedModel(script=SCRIPTS[name]), retriever=RecordingRetriever())
    entered = set()

    def enter(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            entered.add(frame.f_code.co_filename)

    gc.collect()  # what other tests left runs code of ours when it is collected
    before = sys.getprofile()
    sys.setprofile(enter)
    threading.setprofile(enter)
    try:
        output = graph.invoke({"question": "Who built the bridge at Alden?"})
    finally:
        sys.setprofile(before)
        threading.setprofile(before)
    ours = {one for one in entered if one.startswith(str(SOURCE)) and not one.startswith(str(SOURCE / "testing"))}
    assert output["answer"] == "Ada Brenner"
    assert said is not None
    assert 10 < len(ours) <= int(said[1])


def test_what_is_generated_is_current() -> None:
    pytest.importorskip("mkdocs")
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "sync.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.nightly
def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip('the site needs: pip install "ragweave[docs]"')
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    loaded = re.compile(
        r"""<(?:script|img|iframe)[^>]*\ssrc=["']?(?:https?:)?//|<link rel=["']?(?:stylesheet|preload)["']? href=["']?(?:https?:)?//"""
    )
    assert [str(page) for page in tmp_path.rglob("*.html") if loaded.search(page.read_text("utf-8"))] == []
    for one in METHODS.ours():
        page = (tmp_path / "methods" / one.name / "index.html").read_text("utf-8")
        assert all(name in page for name in one.options.model_fields)
        assert (tmp_path / "methods" / f"{one.name}.svg").is_file()
    assert "methods/crag/" in (tmp_path / "llms.txt").read_text("utf-8")
