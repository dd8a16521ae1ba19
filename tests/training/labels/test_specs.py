from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scripted import ScriptedChat

from ragweave.errors import UsageError
from ragweave.tools.scorers import HuggingFaceScorer, ServerScorer
from ragweave.training.labels import open_source, redacted, scorer_of_spec
from ragweave.training.labels.models import named_model


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ("extractive", "extractive"),
        ("llamacpp:/m/a.gguf?n_ctx=8192", "llamacpp:/m/a.gguf?n_ctx=8192"),
        ("openai:m?api_key=sk-1&max_tokens=9", "openai:m?api_key=***&max_tokens=9"),
        ("openai:m?base_url=http://u:p@host:1/v1", "openai:m?base_url=http://host:1/v1"),
        ("openai:m?base_url=http://h/v1%3Fkey%3Dsk-1", "openai:m?base_url=http://h/v1%3Fkey%3D***"),
        (
            "x:m?hf_token=t&client_secret=s&password=p",
            "x:m?hf_token=***&client_secret=***&password=***",
        ),
    ],
)
def test_what_is_written_down_of_a_spec(spec: str, shown: str) -> None:
    assert redacted(spec) == shown


@given(st.sampled_from(["api_key", "openai_api_key", "token", "my_secret", "Password"]))
def test_no_key_is_written_down(name: str) -> None:
    assert "sk-123" not in redacted(f"openai:m?temperature=0&{name}=sk-123&top_p=1")


class Client:
    """A model object: what it says of itself."""

    def __init__(self, **said: object) -> None:
        vars(self).update(said)


@pytest.mark.parametrize(
    ("model", "spec", "shown"),
    [
        (Client(model_name="a"), "openai:m?api_key=sk-1", "openai:m?api_key=***"),
        (Client(), "", "object:Client"),
        (Client(model_name="gpt", path="b"), "", "object:Client:gpt"),
        (Client(model=Client(), path=Path("a.gguf")), "", "object:Client:a.gguf"),
        (
            Client(model_name="gpt", openai_api_base="http://u:p@host:1/v1"),
            "",
            "object:Client:gpt?base_url=http://host:1/v1",
        ),
        (
            ServerScorer("m", "http://host/v1", api_key="sk-1"),
            "",
            "object:ServerScorer:m?base_url=http://host/v1",
        ),
        (HuggingFaceScorer("org/m"), "", "object:HuggingFaceScorer:org/m"),
        (HuggingFaceScorer(Client(name_or_path="f"), object()), "", "object:HuggingFaceScorer:f"),
        (
            ScriptedChat().bind(top_p=0.5, stop=["x"]).bind(top_p=0.9, api_key="sk-1"),
            "",
            "object:ScriptedChat?api_key=***&top_p=0.9",
        ),
    ],
)
def test_what_is_written_down_of_a_model(model: object, spec: str, shown: str) -> None:
    assert named_model(model, spec) == shown


def test_scorers_by_spec(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", "utf-8")
    assert isinstance(scorer_of_spec(f"hf:{tmp_path}?batch_size=4"), HuggingFaceScorer)
    server = scorer_of_spec("openai:m?base_url=http://127.0.0.1:1/v1")
    assert isinstance(server, ServerScorer)
    for spec in ("extractive", "gpt:m?api_key=sk-1"):
        with pytest.raises(UsageError, match="unknown scorer") as told:
            scorer_of_spec(spec)
        assert "sk-1" not in str(told.value)
    with pytest.raises(UsageError, match="invalid settings"):
        scorer_of_spec(f"hf:{tmp_path}?colour=red")


def test_a_scorer_that_is_not_here_is_told_at_once_without_a_network() -> None:
    with pytest.raises(UsageError, match=r"scorer 'hf:nobody/nothing': .* not on this machine"):
        scorer_of_spec("hf:nobody/nothing")


@pytest.mark.parametrize("text", ["", "   \n"])
def test_an_empty_source(tmp_path: Path, text: str) -> None:
    (tmp_path / "qa.jsonl").write_text(text, "utf-8")
    with pytest.raises(UsageError, match=r"qa\.jsonl"):
        open_source(str(tmp_path / "qa.jsonl"))


def test_sources_that_are_none(tmp_path: Path) -> None:
    for spec, said in (
        (f"{tmp_path}/missing.jsonl", "no such file"),
        ("nosuch:qa.jsonl", "unknown data set"),
        (r"C:\nowhere\qa.jsonl", "no such file"),
        (str(tmp_path), "is a folder"),
    ):
        with pytest.raises(UsageError, match=said):
            open_source(spec)


@pytest.mark.parametrize("name", ["asqa:", ""])
def test_a_file_of_several_splits_is_labelled_by_one(tmp_path: Path, name: str) -> None:
    def split(key: str) -> dict[str, object]:
        pair = {"question": "first?", "short_answers": ["1932"]}
        return {key: {"ambiguous_question": f"When {key}?", "qa_pairs": [pair]}}

    path = tmp_path / "ASQA.json"
    path.write_text(json.dumps({"train": split("t"), "dev": split("d")}), "utf-8")
    said = r"several splits \(dev, train\): name the one to label, asqa:.*\?split=train"
    with pytest.raises(UsageError, match=said):
        open_source(f"{name}{path}")
    assert [one.id for one in open_source(f"asqa:{path}?split=train").read()] == ["t"]
    path.write_text(json.dumps({"dev": split("d")}), "utf-8")
    assert [one.id for one in open_source(f"{name}{path}").read()] == ["d"]
