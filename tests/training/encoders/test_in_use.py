"""From rows to a part in use: trained, exported, loaded by folder."""

from __future__ import annotations

import json

import pytest
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage

from ragweave.tools.models.tasks import attach
from ragweave.trained.chat import load_part
from ragweave.training.train import plan_training, train_part

pytest.importorskip("sentence_transformers")
pytest.importorskip("accelerate")
pytest.importorskip("datasets")

from tiny_encoder import make_tiny_encoder

DRAFTS = {"william shakespeare": True, "i do not know": False, "paris": True, "maybe rome": False}
TEXT = "Shakespeare was a poet. William wrote hamlet. It was snow."


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    base = make_tiny_encoder(tmp_path_factory.mktemp("base"))
    return {
        "base": str(base),
        "epochs": 12.0,
        "learning_rate": 5e-3,
        "batch": 8,
        "device": "cpu",
        "held_out": 0.25,
    }


def write_rows(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_a_trained_judge_gives_its_verdicts(tmp_path, settings):
    rows = [
        {"id": f"{n}-{draft}", "question": f"{who} ?", "draft": draft, "known": known}
        for n, who in enumerate(["who wrote hamlet", "who", "where is it", "what is it"])
        for draft, known in DRAFTS.items()
    ]
    plan = plan_training(
        "judge",
        write_rows(tmp_path / "judge.jsonl", rows),
        tmp_path / "judge",
        kind="cross-encoder",
        settings=settings,
    )
    card = train_part(plan)
    assert card.metrics["auc"]["mean"] == 1.0
    assert card.data["pairs"] == {"known": 6, "not known": 6, "held_out": 4}

    judge = load_part(tmp_path / "judge", "judge")
    for draft, known in DRAFTS.items():
        task = {"task": "judge", "question": "who wrote hamlet ?", "draft": draft}
        reply = judge.invoke([attach(HumanMessage("judge"), task)])
        assert reply.content == f"<Known({known})>"


def test_a_trained_filter_keeps_the_sentence_before_and_after_its_export(tmp_path, settings):
    rows = [
        {
            "id": str(n),
            "question": question,
            "answers": ["x"],
            "passages": [{"id": "p", "title": "poet", "text": TEXT}],
            "spans": [{"passage_id": "p", "start": 24, "end": 45}],
        }
        for n, question in enumerate(["who wrote hamlet", "who wrote it", "wrote", "who hamlet"])
    ]
    plan = plan_training(
        "filter",
        write_rows(tmp_path / "silver.jsonl", rows),
        tmp_path / "filter",
        kind="cross-encoder",
        settings=settings,
    )
    card = train_part(plan)
    assert card.metrics["first"]["mean"] == card.metrics["recall_top_1"]["mean"] == 1.0

    passage = Document(TEXT, id="p", metadata={"title": "poet"})
    kept = load_part(tmp_path / "filter", "filter").keep("who wrote hamlet", [passage])
    assert [span["text"] for span in kept] == ["William wrote hamlet."]

    pytest.importorskip("onnxscript")
    from ragweave.trained.pairs import load_pair_scorer
    from ragweave.training.encoders.onnx import export_onnx

    export_onnx(tmp_path / "filter")
    pairs = load_pair_scorer(tmp_path / "filter").form.pairs(
        "who wrote hamlet", [{"id": "p", "title": "poet", "text": TEXT}], kept
    )
    assert load_pair_scorer(tmp_path / "filter").score(pairs) == pytest.approx(
        [span["score"] for span in kept], abs=1e-3
    )
