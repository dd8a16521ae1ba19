"""What is published of a reproduction: every output, in stable order, without paths and keys."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.evaluation.reproduction.islands import data_folder
from tests.scripted import ScriptedChat, Seen

from ragweave.evaluation.published import tables_of_paper
from ragweave.evaluation.reproduction import (
    PlannedRun,
    Request,
    Scrubber,
    estimate,
    publish,
    runs_of_table,
)
from ragweave.evaluation.reproduction.estimate import calls_of
from ragweave.evaluation.runs import RunConfig, claim_directory, evaluate, system

KEY = "sk-planted0123456789abcdef"
PLANTED = "planted-secret-of-the-environment"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return data_folder(tmp_path / "islands")


def _done(data: Path, out: Path, concurrency: int) -> list[PlannedRun]:
    """Run a figure with a model that betrays a key, a path and a failure."""
    (table,) = tables_of_paper("post-fusion", "figure6")
    model = f"openai:some-model?base_url=http://host/v1&api_key={KEY}"
    runs = runs_of_table(table, Request(model="extractive", data=data, limit=3))

    def said(seen: Seen) -> str | Exception:
        if "Harrow" in seen.text and seen.passages:
            return ValueError(f"cannot read /srv/models/weights.bin with key {KEY}")
        return f"1801, says {data}/notes.txt, token {PLANTED}, {KEY}"

    for run in runs:
        directory = claim_directory(out / run.folder, run.plan(out))
        chat = ScriptedChat(replies=said, usage=(10, 2))
        asyncio.run(
            evaluate(directory, RunConfig(concurrency=concurrency), models={"answer": chat})
        )
    for run in runs:
        object.__setattr__(run, "models", {"answer": model})
    return runs


def test_outputs_hold_no_key_and_no_path_in_stable_order(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", PLANTED)
    texts = []
    for concurrency in (1, 8):
        out, file = tmp_path / f"out{concurrency}", tmp_path / f"published{concurrency}.jsonl"
        count = publish(file, _done(data, out, concurrency), out)
        texts.append(file.read_text("utf-8"))
        assert count == len(texts[-1].splitlines()) == 3 + 3 * 3
    assert texts[0] == texts[1]
    for secret in (
        KEY,
        PLANTED,
        str(tmp_path),
        str(data),
        "/srv/models",
        str(Path.home()),
        "http:",
    ):
        assert secret not in texts[0]
    lines = [json.loads(line) for line in texts[0].splitlines()]
    assert [one["row"] for one in lines[:3]] == ["direct"] * 3
    assert [one["row"] for one in lines[3:6]] == ["gold first"] * 3
    failed = next(one for one in lines if one["error"])
    assert failed["error"]["text"].startswith("cannot read [path] with key ")
    right = next(one for one in lines if not one["error"])
    assert right["answer"].startswith("1801, says [path], token [key], [key]")
    assert right["models"] == {"answer": "openai:some-model"}
    assert right["options"]["k"] == 5 if right["row"] != "direct" else True
    assert right["scores"].keys() >= {"em", "f1"}


def test_words_of_a_question_stay_as_they_are() -> None:
    scrubber = Scrubber()
    for text in ("10 km/h and/or 5 m/s", "on 3/4/1932", "either/or, see a/b", "AC/DC", "1:30/2:40"):
        assert scrubber.about(text) == text
    assert scrubber.words("In /etc/hosts, says Unix.") == "In /etc/hosts, says Unix."
    assert scrubber.about({"C:\\Users\\ada\\x.bin": ["~/runs/one", "file:///a/b"]}) == {
        "[path]": ["[path]", "[path]"]
    }


def test_calls_follow_the_methods_formulas() -> None:
    assert calls_of(system("concat_pf", k=5, samples=2)) == (2, 24)
    assert calls_of(system("blendfilter")) == (11, 12)
    assert calls_of(system("slimplm", max_claims=4)) == (3, 11)
    gated = {"route": "uncertainty", "gate": "variance", "gate_samples": 5}
    assert calls_of(system("slimplm", max_claims=4, **gated)) == (3, 15)
    assert calls_of(system("slimplm", max_claims=4, question_judge=False, **gated)) == (3, 11)
    assert calls_of(system("uncertainty_gate", gate="variance", gate_samples=4)) == (2, 8)
    assert calls_of(system("crag")) == (5 + 1 + 1, 5 + 2 + 2)
    assert calls_of(system("self_ask", rounds=2)) == (3, 7)
    assert calls_of(system("self_ask", rounds=2, second_look=False)) == (1, 7)
    assert calls_of(system("react", max_steps=4)) == (2, 6)


def test_costs_are_told_before_anything_is_paid(data: Path) -> None:
    pytest.importorskip("langchain_openai", reason="the model needs the openai extra")
    (table,) = tables_of_paper("post-fusion", "figure6")
    runs = runs_of_table(table, Request(model="openai:m", data=data, limit=4, prices="1,2"))
    made = runs[-1].made
    assert made is not None
    found = estimate(runs[-1], made)
    assert found.questions == 12
    assert found.calls == (12, 24)
    assert 12 * 30 < found.input_tokens[0] < found.input_tokens[1]
    assert found.output_tokens[1] == 24 * 512
    assert found.dollars is not None
    low = (found.input_tokens[0] + 2 * found.output_tokens[0]) / 1e6
    assert found.dollars[0] == pytest.approx(low)
    both = found + found
    assert (both.questions, both.calls) == (24, (24, 48))
