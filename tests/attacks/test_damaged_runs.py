"""Damaged run directories, vectors and ONNX files: one clear line each, nothing outside is read."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.attacks.test_damaged import damaged, told
from tests.evaluation.towns import planned, reader, run

from ragweave.errors import ModelError
from ragweave.evaluation.report.summary import read_runs
from ragweave.evaluation.runs import RunDirectory
from ragweave.testing.store import WordEmbeddings
from ragweave.tools.knowledge import KnowledgeBase


def resume(path: Path) -> None:
    run(RunDirectory(path), reader())


def attack_runs(folder: Path, rounds: int) -> None:
    whole = planned(folder / "whole", "direct,concat[k=1]", count=3)
    run(whole, reader())
    rng = random.Random(rounds)
    for _ in range(rounds):
        for name in ("run.json", "results.jsonl", "state.sqlite"):
            copy = folder / "copy"
            shutil.copytree(whole.path, copy)
            file = copy / name
            file.write_bytes(damaged(file.read_bytes(), rng))
            told(partial(read_runs, [copy]))
            told(partial(resume, copy))
            shutil.rmtree(copy)


def attack_vectors(folder: Path, rounds: int) -> None:
    with KnowledgeBase.create(folder / "kb", embeddings=WordEmbeddings()) as base:
        base.index_paths([_docs(folder)])
    rng = random.Random(rounds)
    (file,) = (folder / "kb").glob("index-*/vectors.npy")
    whole = file.read_bytes()

    def ask() -> None:
        with KnowledgeBase.open(folder / "kb", embeddings=WordEmbeddings()) as base:
            base.as_retriever(2, "dense").invoke("salt")
            base.check()

    for _ in range(rounds):
        file.write_bytes(damaged(whole, rng))
        told(ask)
    file.write_bytes(whole)
    ask()


def _docs(folder: Path) -> Path:
    docs = folder / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("about salt and pepper")
    return docs


def test_a_damaged_run_is_told(tmp_path: Path) -> None:
    attack_runs(tmp_path, rounds=2)


def test_damaged_vectors_are_told(tmp_path: Path) -> None:
    attack_vectors(tmp_path, rounds=3)


@pytest.mark.attack
def test_many_damaged_runs_and_vectors_are_told(
    tmp_path: Path, trials: Callable[[int], None]
) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "vectors").mkdir()
    attack_runs(tmp_path / "runs", rounds=40)
    attack_vectors(tmp_path / "vectors", rounds=40)
    trials(159)


def test_onnx_data_outside_the_folder_is_not_read(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs ragweave[train]")
    onnx = pytest.importorskip("onnx", reason="needs ragweave[train]")
    from ragweave.trained.encoders import onnx_run

    helper, kind = onnx.helper, onnx.TensorProto
    (tmp_path / "part").mkdir()
    (tmp_path / "secret").write_bytes(b"\0" * 16)
    for location in ("../secret", str(tmp_path / "secret")):
        weight = kind(name="w", data_type=kind.FLOAT, dims=[4])
        weight.data_location = kind.EXTERNAL
        for key, value in (("location", location), ("offset", "0"), ("length", "16")):
            weight.external_data.add(key=key, value=value)
        graph = helper.make_graph(
            [helper.make_node("Identity", ["w"], ["out"])],
            "reads_outside",
            [],
            [helper.make_tensor_value_info("out", kind.FLOAT, [4])],
            [weight],
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        file = tmp_path / "part" / "model.onnx"
        file.write_bytes(made.SerializeToString())
        with pytest.raises(ModelError, match="cannot be read"):
            onnx_run(file)
