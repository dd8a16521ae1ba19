"""Two processes under `accelerate launch` train as one does, and only the first writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.training.writers import tiny

from ragweave.trained import read_card
from ragweave.training.train import plan_training, train_part

ROOT = Path(__file__).parents[3]
LAUNCH = [
    "-m",
    "accelerate.commands.launch",
    "--cpu",
    "--num_processes",
    "2",
    "--main_process_port",
    "0",
    "--num_machines",
    "1",
]
PLAIN = ["--mixed_precision", "no", "--dynamo_backend", "no"]
SETTINGS = {
    "epochs": 2.0,
    "batch": 4,
    "learning_rate": 1e-3,
    "device": "cpu",
    "held_out": 0.3,
    "max_output": 8,
}
OWN = {"seq2seq": {}, "causal-lora": {"lora_dropout": 0.0}}
FILES = {"seq2seq": "model.safetensors", "causal-lora": "adapter_model.safetensors"}


PARTS = [("seq2seq", "judge"), ("causal-lora", "generator")]
IN_TURN = """
import sys
from ragweave.cli import run

for command in sys.argv[1:]:
    sys.argv = ["ragweave", *command.split("|")]
    try:
        run()
    except SystemExit as end:
        if end.code:
            raise
"""


@pytest.fixture(scope="module")
def launched(bases, tmp_path_factory):
    """Train both kinds by one launch of two processes: their start takes longer than they do."""
    folder, commands = tmp_path_factory.mktemp("launched"), []
    for kind, role in PARTS:
        rows = folder / f"{role}.jsonl"
        rows.write_text("".join(json.dumps(row) + "\n" for row in tiny.ROWS[role]()))
        sets = [f"--set={name}={value}" for name, value in settings(bases, kind).items()]
        train = ["train", role, str(rows), "--kind", kind, "--out", str(folder / kind), *sets]
        commands.append("|".join(train))
    script = folder / "in_turn.py"
    script.write_text(IN_TURN)
    done = subprocess.run(
        [sys.executable, *LAUNCH, *PLAIN, str(script), *commands],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("epoch 2:") == len(PARTS)
    return folder


def settings(bases, kind):
    return {**SETTINGS, **OWN[kind], "base": str(bases(kind))}


@pytest.mark.parametrize(("kind", "role"), PARTS)
def test_two_processes_train_as_one_does(bases, launched, tmp_path, kind, role):
    rows, told = launched / f"{role}.jsonl", settings(bases, kind)
    single = train_part(plan_training(role, rows, tmp_path / "one", kind=kind, settings=told))
    both = read_card(launched / kind, role)
    assert both.metrics["rows"] == single.metrics["rows"]
    assert both.metrics["loss"] == pytest.approx(single.metrics["loss"], rel=1e-3)
    one, two = (load_file(folder / FILES[kind]) for folder in (tmp_path / "one", launched / kind))
    assert one.keys() == two.keys()
    assert all(torch.allclose(one[name], two[name], atol=1e-4) for name in one)
