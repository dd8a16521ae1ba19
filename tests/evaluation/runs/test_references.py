"""What a run takes from files is the same wherever, and whenever, it is resumed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.evaluation.files import write_lines
from tests.evaluation.towns import reader, run, towns

from ragweave.datasets import Question
from ragweave.datasets.dataset import FORMATS
from ragweave.datasets.question import Format, has
from ragweave.datasets.rows import Row
from ragweave.errors import UsageError
from ragweave.evaluation.report import read_runs
from ragweave.evaluation.runs import (
    RunConfig,
    RunDirectory,
    RunSettings,
    System,
    claim_directory,
    plan,
    record_moved_servers,
    system,
)
from ragweave.evaluation.runs.directory import SETTINGS
from ragweave.evaluation.runs.run import checked
from ragweave.evaluation.runs.settings import cache_name
from ragweave.graphs import METHODS
from ragweave.nodes.options import Options
from ragweave.tools.filters import FILTERS
from ragweave.tools.models import MODELS
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


@dataclass(frozen=True, kw_only=True)
class LexiconOptions(Options):
    """Options of a method that reads a file, and has a `filter` of its own."""

    lexicon: str = ""
    filter: Literal["strict", "loose"] = "loose"


@pytest.fixture
def _lexical() -> Iterator[None]:
    files = frozenset({"lexicon"})
    METHODS.register(
        replace(METHODS["concat"], name="lexical", options=LexiconOptions, files=files)
    )
    yield
    METHODS.unregister("lexical")


@pytest.mark.usefixtures("_lexical")
@pytest.mark.parametrize("name", ["training", "lexicon", "recorded"])
def test_another_file_is_refused_and_another_folder_is_not(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(folder: str, changed: bool) -> None:
        write_lines(tmp_path / folder / "file.jsonl", {"question": "Who?", "needed": changed})

    def made() -> RunSettings:
        if name == "training":
            return planned(tmp_path, system("skr_knn", "skr", training="file.jsonl"))
        if name == "lexicon":
            one = system("lexical", lexicon="file.jsonl", filter="strict")
            return planned(tmp_path, one)
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


def read_riddle(row: Row) -> Iterator[Question]:
    yield Question(id=row.id("id"), question=row.text("riddle"), answers=("a river",))


def test_the_packages_of_all_that_a_run_uses_are_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for registry in (METHODS, MODELS, FILTERS, FORMATS):
        package = f"{registry.group.replace('.', '-')} 0.2"
        monkeypatch.setattr(registry, "package", lambda _name, package=package: package)
    riddles = Format(name="riddles", expects="riddle", fits=has("riddle"), read=read_riddle)
    monkeypatch.setitem(FORMATS._session, "riddles", riddles)
    path = write_lines(tmp_path / "riddles.jsonl", {"riddle": "What has a bed?"})
    one, models = system("filco", filter="lexical"), {"answer": "extractive"}
    made = plan(f"riddles:{path}", [one], models, retriever="bm25", rerank="name")
    found = {name for name, version in made.versions.items() if version == "0.2"}
    kinds = ("methods", "models", "filters", "datasets")
    assert found == {f"ragweave-{kind}" for kind in kinds}


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


def of_server(
    folder: Path, monkeypatch: pytest.MonkeyPatch, model: str = "openai:local", **env: str
) -> RunSettings:
    """Return the settings of a run planned under these variables, which stay set."""
    for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return planned(folder, system("direct"), model)


@pytest.mark.parametrize(
    ("env", "address"),
    [
        ({}, "https://api.openai.com/v1"),
        ({"OPENAI_BASE_URL": "http://one:8000/v1/"}, "http://one:8000/v1"),
        ({"OPENAI_BASE_URL": "http://me:pw@one:8000/v1?api_key=sk#x"}, "http://one:8000/v1"),
        ({"OPENAI_API_BASE": "http://two/v1", "OPENAI_BASE_URL": "http://one"}, "http://two/v1"),
    ],
)
def test_a_run_goes_on_with_the_server_that_it_began_with(
    env: dict[str, str], address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = of_server(tmp_path, monkeypatch, **env)
    assert made.addresses == {"openai:local": address}
    checked(made, RunConfig())
    directory = claim_directory(tmp_path / "run", made)
    run(directory, reader())
    other = of_server(tmp_path, monkeypatch, OPENAI_BASE_URL="http://other:8000/v1")
    for refused in (
        lambda: checked(directory.settings, RunConfig()),
        lambda: claim_directory(directory.path, other),
    ):
        with pytest.raises(UsageError) as caught:
            refused()
        told = str(caught.value)
        assert "\n" not in told
        for said in ("openai:local", address, "http://other:8000/v1", "OPENAI_BASE_URL"):
            assert said in told


def test_a_run_that_does_not_know_its_server_goes_on_with_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = of_server(tmp_path, monkeypatch, "openai:m?base_url=http://own:8000/v1")
    assert named.addresses == {}
    directory = claim_directory(tmp_path / "run", of_server(tmp_path, monkeypatch))
    run(directory, reader())
    older = directory.settings.plain()
    del older["addresses"]
    (directory.path / SETTINGS).write_text(json.dumps(older), "utf-8")
    now = of_server(tmp_path, monkeypatch, OPENAI_BASE_URL="http://other:8000/v1")
    assert claim_directory(directory.path, now) == directory
    checked(directory.settings, RunConfig())


def test_shards_on_two_servers_are_one_run_and_whole_runs_are_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(name: str, shard: tuple[int, int]) -> Path:
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://{name}/v1")
        made = planned(tmp_path, system("direct"), "openai:local", shard=shard)
        directory = claim_directory(tmp_path / name, made)
        run(directory, reader())
        return directory.path

    assert len(read_runs([ended("a", (1, 2)), ended("b", (2, 2))])) == 1
    assert len(read_runs([ended("c", (1, 1)), ended("d", (1, 1))])) == 2


def test_a_run_goes_on_where_its_server_has_moved_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new, third = (f"http://{name}:8000/v1" for name in ("node17", "node23", "node9"))
    made = of_server(tmp_path, monkeypatch, OPENAI_BASE_URL=old)
    directory = claim_directory(tmp_path / "run", made)
    run(directory, reader())
    again = of_server(tmp_path, monkeypatch, OPENAI_BASE_URL=new)
    with pytest.raises(UsageError, match=r"--moved-server"):
        checked(directory.settings, RunConfig())
    record_moved_servers(directory)
    moved = directory.settings
    assert (moved.addresses, moved.moved) == ({"openai:local": old}, {"openai:local": new})
    assert cache_name("openai:local", moved) == f"openai:local#{old}", "replies are paid for again"
    checked(moved, RunConfig())
    assert claim_directory(directory.path, again) == directory
    assert len(read_runs([directory.path])) == 1
    for other in (old, third):
        monkeypatch.setenv("OPENAI_BASE_URL", other)
        with pytest.raises(UsageError, match=f"with the server {new}, .* now names {other}"):
            checked(moved, RunConfig())
    monkeypatch.setenv("OPENAI_BASE_URL", old)
    record_moved_servers(directory)
    assert directory.settings.moved == {}
    checked(directory.settings, RunConfig())


def test_a_scorer_and_a_chat_model_of_one_spec_may_be_on_two_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_BASE", "http://chat/v1")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://scores/v1")
    made = planned(tmp_path, system("direct"), "openai:m", scorer="openai:m")
    assert made.addresses == {"openai:m": "http://chat/v1", "scorer openai:m": "http://scores/v1"}
    checked(made, RunConfig())
    monkeypatch.setenv("OPENAI_BASE_URL", "http://other/v1")
    with pytest.raises(
        UsageError, match=r"^scorer openai:m: .* http://scores/v1.*\(OPENAI_BASE_URL\)"
    ):
        checked(made, RunConfig())
    monkeypatch.setenv("OPENAI_BASE_URL", "http://scores/v1")
    monkeypatch.setenv("OPENAI_API_BASE", "http://other/v1")
    with pytest.raises(UsageError, match=r"^openai:m: .* http://chat/v1.*\(OPENAI_API_BASE, else"):
        checked(made, RunConfig())
    named = planned(tmp_path, system("direct"), scorer="server:m?base_url=http://own/v1")
    assert named.addresses == {}


def test_the_files_of_a_model_whose_name_begins_alike_are_not_its_own(tmp_path: Path) -> None:
    for name in ("m", "m-chat"):
        for number in (1, 2):
            (tmp_path / f"{name}-0000{number}-of-00002.gguf").write_bytes(b"w")
    made = planned(tmp_path, system("direct"), f"llamacpp:{tmp_path}/m-00001-of-00002.gguf")
    (tmp_path / "m-chat-00002-of-00002.gguf").write_bytes(b"other")
    checked(made, RunConfig())
    (tmp_path / "m-00002-of-00002.gguf").write_bytes(b"other")
    with pytest.raises(UsageError, match="has changed since the run began"):
        checked(made, RunConfig())


@pytest.mark.parametrize("name", ["pytorch_model.bin", "chat_template.jinja", "tokenizer.model"])
def test_all_that_makes_a_model_of_a_folder_is_told(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for one in ("config.json", name, "README.md"):
        (folder / one).write_text("first", "utf-8")
    made = planned(tmp_path, system("direct"), f"hf:{folder}")
    (folder / "README.md").write_text("other", "utf-8")
    checked(made, RunConfig())
    (folder / name).write_text("other", "utf-8")
    with pytest.raises(UsageError, match="has changed since the run began"):
        checked(made, RunConfig())


@pytest.mark.parametrize("place", ["weights.gguf", "folder", "many-00001-of-00002.gguf"])
@pytest.mark.parametrize("role", ["answer", "judge_model"])
def test_other_weights_at_the_same_path_are_refused(place: str, role: str, tmp_path: Path) -> None:
    files = {
        "weights.gguf": tmp_path / "weights.gguf",
        "folder": tmp_path / "folder" / "model.safetensors",
        "many-00001-of-00002.gguf": tmp_path / "many-00002-of-00002.gguf",
    }
    for file in (*files.values(), tmp_path / "many-00001-of-00002.gguf"):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(bytes(300_000))
    spec = f"{'hf' if place == 'folder' else 'llamacpp'}:{tmp_path / place}?seed=1"
    settings: dict[str, Any] = {"judge_model": spec, "metrics": ["em", "correctness"]}
    made = (
        planned(tmp_path, system("direct"), spec)
        if role == "answer"
        else planned(tmp_path, system("direct"), **settings)
    )
    file = files[place]
    os.utime(file, (0, 0))
    checked(made, RunConfig())
    for changed in (b"x" + bytes(299_999), bytes(299_999) + b"x", bytes(300_001)):
        file.write_bytes(changed)
        with pytest.raises(UsageError, match=f"{place}.*has changed since the run began"):
            checked(made, RunConfig())
    checked(replace(made, parts={}), RunConfig())
    file.unlink()
    if place == "weights.gguf":
        with pytest.raises(UsageError, match="is missing; the run began with it"):
            checked(made, RunConfig())
