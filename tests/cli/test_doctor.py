"""What `ragweave doctor` finds."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.gguf_bytes import with_new_type

from ragweave.cli import doctor
from ragweave.cli.doctor import Finding, inspect_machine
from ragweave.llamacpp import binding
from ragweave.llamacpp.gguf import read_gguf


@pytest.fixture
def model(tmp_path: Path) -> Path:
    pytest.importorskip("gguf", reason="writing a test model needs the gguf package")
    import tiny_gguf

    return tiny_gguf.write(tmp_path / "tiny.gguf")


def lines(findings: list[Finding], topic: str) -> str:
    return "\n".join(finding.text for finding in findings if finding.topic == topic)


def test_the_machine_without_a_model() -> None:
    found = inspect_machine()
    assert {finding.topic for finding in found} == {"package", "machine", "gpu"}
    assert "langgraph 1" in lines(found, "package")
    assert "physical cores" in lines(found, "machine")
    assert all("\n" not in finding.text for finding in found)
    assert not [finding for finding in found if finding.level == "problem"]


def test_a_model_file(model: Path) -> None:
    text = lines(inspect_machine(str(model)), "model")
    assert "architecture qwen2, 2 layers" in text
    assert "context 2048 tokens" in text
    assert "chat template of" in text
    assert "n_ctx=2048" in text


def test_a_broken_model_file_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"no")
    found = inspect_machine(str(path))
    assert found[-1] == Finding("model", "problem", f"{path} is not a GGUF file")


def test_a_model_for_embeddings_or_without_template_is_a_problem(tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="writing a test model needs the gguf package")
    import tiny_gguf

    path = tiny_gguf.write(tmp_path / "b.gguf", architecture="bert", template=None)
    problems = [f.text for f in inspect_machine(str(path)) if f.level == "problem"]
    assert any("embeddings" in text for text in problems)
    assert any("chat_template=" in text for text in problems)


def test_a_quantisation_that_the_build_lacks_is_a_problem(model: Path) -> None:
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    model.write_bytes(with_new_type(model.read_bytes()))
    found = inspect_machine(str(model))
    (problem,) = (one.text for one in found if one.level == "problem")
    assert "does not support its quantisation (type 999)" in problem


def test_a_family_and_a_base_model_are_named(tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="writing a test model needs the gguf package")
    import tiny_gguf

    path = tiny_gguf.write(tmp_path / "qwen2.5-0.5b-base.gguf")
    found = [one for one in inspect_machine(str(path)) if one.topic == "model"]
    notes = [one.text for one in found if one.level == "note"]
    assert any("base model" in text for text in notes)
    assert "family Qwen2.5: sampling=card means temperature 0.7" in lines(found, "model")
    instruct = tiny_gguf.write(tmp_path / "qwen2.5-0.5b-instruct.gguf")
    assert "base model" not in lines(inspect_machine(str(instruct)), "model")


def test_too_little_memory_is_a_problem(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "free_memory", lambda: 1 << 20)
    assert inspect_machine(str(model))[-1].level == "problem"
    monkeypatch.setattr(binding, "free_memory", lambda: None)
    assert inspect_machine(str(model))[-1].level == "note"


def test_the_settings_of_the_spec_count(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gguf", reason="writing a test model needs the gguf package")
    import tiny_gguf

    def levels(path: Path, **settings: object) -> list[str]:
        found = inspect_machine(str(path), settings)
        return [one.level for one in found if one.topic == "model"]

    base = tiny_gguf.write(tmp_path / "base.gguf", template=None)
    assert "problem" in levels(base)
    assert "problem" not in levels(base, chat_template="plain")
    assert "problem" in levels(base, chat_template="chatml")
    facts = read_gguf(str(model))
    monkeypatch.setattr(binding, "free_memory", lambda: binding.needed_memory(facts, 1024, 32))
    assert levels(model)[-1] == "note"
    assert "is opened" in lines(inspect_machine(str(model)), "model")
    assert levels(model, n_ctx=2048)[-1] == "problem"
    assert levels(model, n_ctx=512)[-1] == "ok"
    assert levels(model, n_ctx=1024, n_batch=1024)[-1] == "ok"


def test_on_a_gpu_main_memory_is_not_what_counts(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lib = SimpleNamespace(llama_supports_gpu_offload=lambda: True)
    monkeypatch.setattr(binding, "bind", lambda: lib)
    monkeypatch.setattr(binding, "free_memory", lambda: 1 << 20)
    on_gpu = inspect_machine(str(model))[-1]
    assert (on_gpu.level, "on the GPU" in on_gpu.text) == ("note", True)
    assert inspect_machine(str(model), {"n_gpu_layers": 0})[-1].level == "problem"


def test_a_missing_package_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "_LOADED", {})
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    monkeypatch.setattr(doctor, "_PACKAGES", (("no-such-package-here", "llamacpp"),))
    found = inspect_machine()
    assert 'no-such-package-here is not installed: pip install "ragweave[llamacpp]"' in lines(
        found, "package"
    )
    assert lines(found, "gpu")
