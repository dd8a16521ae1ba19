"""`ragweave ask` with a local GGUF model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.command import Run


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("gguf", reason="writing a test model needs the gguf package")
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    import tiny_gguf

    return tiny_gguf.write(tmp_path_factory.mktemp("gguf") / "model.gguf", end_bias=-50.0)


def test_a_local_model_answers(ragweave: Run, kb: Path, gguf: Path) -> None:
    spec = f"llamacpp:{gguf}?n_gpu_layers=-1&n_ctx=8192&max_tokens=8&n_threads=1"
    args = ("ask", "Which bridge and museum has Varn?", "--kb", str(kb), "--method", "post_fusion")
    done = ragweave(*args, "-k", "2", "--model", spec, "--json")
    assert done.returncode == 0, done.stderr
    out = json.loads(done.stdout)
    assert out["usage"]["calls"] == len(out["candidates"]) == 2
    assert out["usage"]["output_tokens"] == 16
    assert not out["usage"]["estimated"]


FILES = {
    "missing": (None, "no model file at"),
    "empty": (b"", "model.gguf"),
    "no gguf": (b"PK\x03\x04" + bytes(500), "model.gguf"),
    "header alone": (b"GGUF\x03\x00\x00\x00" + bytes(8), "model.gguf"),
}


@pytest.mark.parametrize(("content", "said"), FILES.values(), ids=FILES)
def test_files_that_cannot_be_used_are_one_line(
    ragweave: Run, tmp_path: Path, kb: Path, content: bytes | None, said: str
) -> None:
    if content is not None:
        (tmp_path / "model.gguf").write_bytes(content)
    args = ("ask", "q", "--kb", str(kb), "--method", "post_fusion", "--model")
    done = ragweave(*args, "llamacpp:model.gguf?n_gpu_layers=-1&n_ctx=8192", cwd=tmp_path)
    _one_line(done.returncode, done.stderr, said)


def test_a_truncated_file_is_one_line(ragweave: Run, tmp_path: Path, kb: Path, gguf: Path) -> None:
    whole = gguf.read_bytes()
    (tmp_path / "model.gguf").write_bytes(whole[: len(whole) - 4000])
    args = ("ask", "When was the Old Bridge opened?", "--kb", str(kb), "--method", "post_fusion")
    done = ragweave(*args, "--model", "llamacpp:model.gguf?n_ctx=2048", cwd=tmp_path)
    _one_line(done.returncode, done.stderr, "model.gguf")


def test_a_setting_that_is_not_there_is_one_line(ragweave: Run, kb: Path, gguf: Path) -> None:
    args = ("ask", "q", "--kb", str(kb), "--model", f"llamacpp:{gguf}?n_context=5")
    done = ragweave(*args)
    _one_line(done.returncode, done.stderr, "n_context")


def test_a_prompt_longer_than_the_context_is_one_line(ragweave: Run, kb: Path, gguf: Path) -> None:
    args = ("ask", "When was the Old Bridge opened?", "--kb", str(kb), "-m", "concat")
    done = ragweave(*args, "--model", f"llamacpp:{gguf}?n_ctx=64", "-o", "prompt_tokens=2000")
    _one_line(done.returncode, done.stderr, "64")


def _one_line(code: int, stderr: str, said: str) -> None:
    assert code == 2, stderr
    assert said in stderr
    assert "Traceback" not in stderr
    assert len(stderr.strip().splitlines()) == 1, stderr
