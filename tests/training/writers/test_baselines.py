"""FILCO's trained baselines, from labels to the graph: PSG filters whole passages, FULL none."""

from __future__ import annotations

import json

import pytest
from langchain_core.documents import Document
from tests.scripted import ListRetriever, ScriptedChat
from tests.training.writers import tiny

from ragweave import build_graph
from ragweave.errors import UsageError
from ragweave.trained.forms import generator_input
from ragweave.training.labels import Passages, SilverLabeler, make_labels, open_source
from ragweave.training.rows import read_rows
from ragweave.training.train import plan_training, train_part
from ragweave.training.writers.examples import example

SETTINGS = {**tiny.SETTINGS, "epochs": 1.0, "held_out": 0.0, "batch": 4, "micro_batch": 4}
DRY = "It rained in the hills all day."


def labelled(folder, measure, unit="sentence"):
    """Label questions of which every other one's passage holds no answer."""
    rows = [
        {**row, "passages": [{"title": "", "text": DRY}] if n % 2 else row["passages"]}
        for n, row in enumerate(tiny.silver_rows())
    ]
    source = folder / "qa.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    labeler = SilverLabeler(measure, Passages(None, 1), unit=unit)
    return make_labels(open_source(str(source)), labeler, folder / f"{measure}-{unit}.jsonl").path


def plan(bases, rows, role, out):
    settings = {**SETTINGS, "base": str(bases("seq2seq"))}
    return plan_training(role, rows, out, kind="seq2seq", settings=settings)


def test_psg_learns_to_copy_a_passage_whole_or_to_write_nothing(bases, tmp_path):
    rows = labelled(tmp_path, "strinc", "passage")
    kept, dropped, *_ = read_rows(rows, "filter")
    assert example("filter", kept).target == kept["passages"][0]["text"]
    assert example("filter", dropped).target == ""
    assert example("generator", dropped).given == generator_input(dropped["question"], [])
    assert plan(bases, rows, "filter", tmp_path / "psg").data()["unit"] == "passage"


def test_full_shows_the_generator_every_passage(bases, tmp_path):
    rows = labelled(tmp_path, "full")
    for row in read_rows(rows, "generator"):
        assert row["passages"][0]["text"] in example("generator", row).given.text
    with pytest.raises(UsageError, match="they train a generator, and no filter"):
        plan(bases, rows, "filter", tmp_path / "none")


def test_sentences_and_whole_passages_are_not_mixed(bases, tmp_path):
    mixed = tmp_path / "mixed.jsonl"
    parts = [labelled(tmp_path, "strinc", unit) for unit in ("sentence", "passage")]
    mixed.write_text("".join(one.read_text("utf-8") for one in parts), "utf-8")
    with pytest.raises(UsageError, match="train on one kind"):
        plan(bases, mixed, "filter", tmp_path / "none")


def test_both_are_used_in_filco(bases, tmp_path):
    psg = plan(bases, labelled(tmp_path, "strinc", "passage"), "filter", tmp_path / "psg")
    full = plan(bases, labelled(tmp_path, "full"), "generator", tmp_path / "full")
    assert train_part(psg).data["unit"] == "passage"
    train_part(full)
    found = [Document(page_content=tiny.sentence("Rome", "Italy"), id="p")]
    common = {"retriever": ListRetriever(documents=found), "profile": "paper"}
    question = {"question": "What is the capital of Italy?"}
    filtered = build_graph(
        "filco", filter=str(psg.folder), model=ScriptedChat(replies=["Rome"]), **common
    ).invoke(question)
    assert [doc.page_content for doc in filtered["passages"]] in ([], [found[0].page_content])
    whole = build_graph("filco", filter="full", model=str(full.folder), **common).invoke(question)
    assert [doc.id for doc in whole["passages"]] == ["p"]
    assert whole["usage"]["by_role"]["answer"]["calls"] == 1
