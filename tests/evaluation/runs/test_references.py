"""What a run takes from files is the same wherever, and whenever, it is resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.files import write_lines
from tests.evaluation.towns import reader, run, towns

from ragweave.errors import UsageError
from ragweave.evaluation.runs import (
    RunConfig,
    RunDirectory,
    RunSettings,
    System,
    claim_directory,
    plan,
    system,
)
from ragweave.evaluation.runs.directory import SETTINGS
from ragweave.evaluation.runs.run import checked
from ragweave.trained import ModelCard, write_card


def router(folder: Path, created: str) -> Path:
    folder.mkdir(exist_ok=True)
    card = ModelCard(
        role="router",
        kind="linear-router",
        base="minilm",
        threshold=0.1,
        settings={"drafts": False},
        created=created,
    )
    write_card(folder, card)
    return folder


def planned(folder: Path, one: System, model: str = "scripted", **settings: Any) -> RunSettings:
    return plan(f"jsonl:{towns(folder, 2)}", [one], {"answer": model}, **settings)


def test_a_retrained_router_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    router(tmp_path / "router", "first")
    made = planned(tmp_path, system("adaptive_rag", router="router/"))
    assert made.systems[0].options["router"] == str(tmp_path / "router")
    checked(made, RunConfig())
    router(tmp_path / "router", "second")
    with pytest.raises(UsageError, match="router: was trained again after the run began"):
        checked(made, RunConfig())


@pytest.mark.parametrize("name", ["training", "recorded"])
def test_another_file_is_refused_and_another_folder_is_not(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(folder: str, changed: bool) -> None:
        write_lines(tmp_path / folder / "file.jsonl", {"question": "Who?", "needed": changed})

    def made() -> RunSettings:
        if name == "training":
            return planned(tmp_path, system("skr_knn", "skr", training="file.jsonl"))
        return planned(tmp_path, system("direct"), "recorded:file.jsonl?unrecorded=error")

    write("a", False)
    write("b", True)
    monkeypatch.chdir(tmp_path / "a")
    first = made()
    monkeypatch.chdir(tmp_path / "b")
    checked(first, RunConfig())
    assert str(tmp_path / "a" / "file.jsonl") in json.dumps(first.plain())
    assert made().plain() != first.plain(), "shards of two files would be merged"
    write("a", True)
    with pytest.raises(UsageError, match="has changed since the run began"):
        checked(first, RunConfig())


def test_local_models_are_absolute_and_names_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for one in ("gte", "minilm", "m.gguf"):
        (tmp_path / one).mkdir()
    local = planned(
        tmp_path,
        system("filco", filter="recomp", encoder="gte?query=q"),
        "llamacpp:m.gguf?n_ctx=512",
        rerank="bi-encoder:gte",
    )
    assert local.models["answer"] == f"llamacpp:{tmp_path}/m.gguf?n_ctx=512"
    assert local.systems[0].options["encoder"] == f"{tmp_path}/gte?query=q"
    assert local.rerank == f"bi-encoder:{tmp_path}/gte"
    named = planned(
        tmp_path,
        system("filco", filter="recomp", encoder="minilm"),
        "hf:org/model",
        rerank="bi-encoder:minilm",
    )
    assert (named.models["answer"], named.rerank) == ("hf:org/model", "bi-encoder:minilm")
    assert named.systems[0].options["encoder"] == "minilm"


def test_a_run_of_an_earlier_version_is_taken_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    router(tmp_path / "router", "first")
    made = planned(tmp_path, system("adaptive_rag", router="router/"))
    directory = claim_directory(tmp_path / "run", made)
    run(directory, reader())
    older = made.plain() | {"parts": {}}
    older["systems"][0]["options"]["router"] = "router/"
    (directory.path / SETTINGS).write_text(json.dumps(older), "utf-8")
    assert claim_directory(directory.path, made) == directory
    checked(RunDirectory(directory.path).settings, RunConfig())


def test_a_path_through_a_link_names_the_file_that_it_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to(tmp_path / "real" / "deep")
    for folder in ("real", "work"):
        write_lines(tmp_path / folder / "skr.jsonl", {"question": folder, "needed": True})
    monkeypatch.chdir(tmp_path / "work")
    made = planned(tmp_path, system("skr_knn", training="link/../skr.jsonl"))
    assert made.systems[0].options["training"] == str((tmp_path / "real" / "skr.jsonl").resolve())


def test_a_file_that_is_gone_is_called_missing(tmp_path: Path) -> None:
    file = tmp_path / "skr.jsonl"
    write_lines(file, {"question": "Who?", "needed": True})
    made = planned(tmp_path, system("skr_knn", training=str(file)))
    file.unlink()
    with pytest.raises(UsageError, match=r"skr\.jsonl: is missing; the run began with it"):
        checked(made, RunConfig())
