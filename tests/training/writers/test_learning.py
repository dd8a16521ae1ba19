"""Both kinds learn their rows, and a saved and reloaded part writes what it learnt."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from tests.training.writers import tiny

from ragweave.trained import ModelCard, check_safe, write_card
from ragweave.trained.writers import load_writer
from ragweave.training.train import recipe_of
from ragweave.training.trainer.arguments import TrainingCallbacks
from ragweave.training.writers.examples import example

CASES = [
    ("seq2seq", "generator"),
    ("seq2seq", "rewriter"),
    ("seq2seq", "filter"),
    ("causal-lora", "generator"),
    ("causal-lora", "filter"),
]


def trained(bases, folder, kind, role, count, **settings):
    rows = tiny.ROWS[role](count) * 10
    watch = tiny.Losses()
    job = tiny.job(
        bases(kind),
        folder,
        role,
        kind,
        train=rows,
        held_out=settings.pop("held_out", ()),
        watch=watch,
        **{**tiny.LEARN[kind], **settings},
    )
    fitted = recipe_of(kind, role).fit(job)
    write_card(
        folder,
        ModelCard(
            role=role, kind=kind, base=str(bases(kind)), settings=dataclasses.asdict(job.settings)
        ),
    )
    return job, fitted, watch


@pytest.mark.parametrize(("kind", "role"), CASES)
def test_an_overfitted_part_writes_its_targets_when_loaded_again(bases, tmp_path, kind, role):
    epochs = 8.0 if role == "rewriter" else 6.0
    job, fitted, watch = trained(bases, tmp_path / "part", kind, role, 4, epochs=epochs)
    assert watch.losses[-1] < 0.1 * watch.losses[0]
    assert fitted.data == {}
    assert len(watch.losses) == watch.total
    for left in (job.folder / "checkpoints").iterdir():
        left.rename(tmp_path / left.name)
    (job.folder / "checkpoints").rmdir()
    check_safe(job.folder)
    writer = load_writer(job.folder, role)
    examples = [example(role, row) for row in job.rows.train[:4]]
    written = writer.write([one.given for one in examples])
    assert [one.text.split() for one in written] == [one.target.split() for one in examples]
    assert all(one.finished and not one.cut for one in written)


@pytest.mark.parametrize("kind", ["seq2seq", "causal-lora"])
def test_a_judge_is_measured_by_its_margin(bases, tmp_path, kind):
    rows = tiny.judge_rows(6)
    _, fitted, watch = trained(
        bases, tmp_path / "part", kind, "judge", 6, epochs=3.0, held_out=rows
    )
    assert fitted.metrics["accuracy"] == 1.0
    assert fitted.metrics["auc"] == 1.0
    assert fitted.metrics["rows"] == 6
    epochs = fitted.metrics["epochs"]
    assert list(epochs) == [str(n) for n in range(1, 4)]
    assert epochs["3"]["loss"] < 0.5 * epochs["1"]["loss"]
    assert len(watch.lines) == 3


@pytest.mark.parametrize("kind", ["seq2seq", "causal-lora"])
def test_held_out_rows_are_measured_as_the_loaded_part_writes_them(bases, tmp_path, kind):
    rows = tiny.silver_rows(4)
    job, fitted, _ = trained(
        bases, tmp_path / "part", kind, "generator", 4, epochs=1.0, held_out=rows
    )
    for left in sorted((job.folder / "checkpoints").rglob("*"), reverse=True):
        left.rmdir() if left.is_dir() else left.unlink()
    writer = load_writer(job.folder, "generator")
    examples = [example("generator", row) for row in rows]
    written = writer.write([one.given for one in examples])
    exact = [one.text == ex.target for one, ex in zip(written, examples, strict=True)]
    assert fitted.metrics["exact_match"] == sum(exact) / 4
    scores = writer.score([(one.given, one.target) for one in examples])
    tokens = sum(
        len(writer.tokenizer(one.target, add_special_tokens=False)["input_ids"]) + 1
        for one in examples
    )
    assert fitted.metrics["loss"] == pytest.approx(-sum(scores) / tokens, rel=1e-4)


@pytest.mark.parametrize("kind", ["seq2seq", "causal-lora"])
def test_several_gpus_in_one_process_do_not_multiply_the_batch(bases, tmp_path, kind, monkeypatch):
    """What transformers counts as GPUs is counted when the arguments are made."""
    tiny.see_two_gpus(monkeypatch)
    told = {"epochs": 1.0, "batch": 4, "micro_batch": 2}
    _, _, watch = trained(bases, tmp_path / "part", kind, "generator", 2, **told)
    assert len(watch.losses) == watch.total == 5


def test_gpus_that_are_left_unused_are_told_of(monkeypatch):
    for gpus, cpu, world, lines in (
        (2, False, 1, 1),
        (1, False, 1, 0),
        (2, True, 1, 0),
        (2, False, 2, 0),
    ):
        monkeypatch.setattr(torch.cuda, "device_count", lambda gpus=gpus: gpus)
        monkeypatch.setenv("WORLD_SIZE", str(world))
        watch = tiny.Losses()
        TrainingCallbacks(watch, 1, lambda: None).began(cpu=cpu)
        assert len(watch.lines) == lines
