"""`--ray`: its value may be left out, and what is wrong with it is told without a cluster."""

from __future__ import annotations

import importlib.util
import socket
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ragweave.cli.main import app
from ragweave.cli.on_ray import RayCommand
from ragweave.errors import MissingExtraError, UsageError
from ragweave.tools.cluster import check_address, is_address
from ragweave.tools.cluster.connection import connected


def refused(*args: str) -> str:
    error = CliRunner().invoke(app, list(args)).exception
    assert isinstance(error, UsageError)
    return str(error)


@pytest.mark.parametrize(
    ("args", "given"),
    [
        (["--ray"], ["--ray", "local"]),
        (["--ray", "--out", "run"], ["--ray", "local", "--out", "run"]),
        (["--ray", "nq:dev.json"], ["--ray", "local", "nq:dev.json"]),
        (["--ray", "docs"], ["--ray", "local", "docs"]),
        (["--ray", "auto", "docs"], ["--ray", "auto", "docs"]),
        (["--ray", "head:6379"], ["--ray", "head:6379"]),
        (["--ray", "ray://[::1]:10001"], ["--ray", "ray://[::1]:10001"]),
        (["docs"], ["docs"]),
    ],
)
def test_without_an_address_it_is_this_machine(
    args: list[str], given: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(
        RayCommand.__mro__[1], "parse_args", lambda _self, _ctx, args: seen.append(args) or []
    )
    RayCommand("eval").parse_args(None, args)  # type: ignore[arg-type]
    assert seen == [given]


def test_other_ways_to_divide_the_work_are_refused() -> None:
    told = refused("eval", "qa.jsonl", "--out", "run", "--ray", "--workers", "2")
    assert told.endswith("leave out --workers")
    told = refused("eval", "qa.jsonl", "--out", "run", "--ray", "auto", "--shard", "1/2")
    assert told.endswith("leave out --shard")


def test_what_is_no_address_is_told_before_anything_is_done(tmp_path: Path) -> None:
    told = refused("eval", "qa.jsonl", "--out", str(tmp_path / "run"), "--ray=head")
    assert "--ray head: is no address" in told
    out = str(tmp_path / "rows.jsonl")
    told = refused("label", "judge", "qa.jsonl", "--draft", "draft", "--out", out, "--ray=head")
    assert "--ray head: is no address" in told
    assert not list(tmp_path.iterdir())
    for text in ("nonsense", "head", "head:port", "http://head:6379", ""):
        assert not is_address(text)
    with pytest.raises(UsageError, match="is no address; give local, auto, HOST:PORT"):
        check_address("head")


@pytest.mark.loopback
@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ray://127.0.0.1:{}"])
def test_a_cluster_that_does_not_answer_is_told(form: str) -> None:
    pytest.importorskip("ray", reason='needs: pip install "ragweave[ray]"')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    told = rf"--ray {form.format(port)}: no Ray cluster answers there"
    with pytest.raises(UsageError, match=told), connected(form.format(port)):
        pass


def test_ray_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "ragweave.tools.cluster.connection.find_spec",
        lambda name: None if name == "ray" else found(name),
    )
    with pytest.raises(MissingExtraError, match=r'pip install "ragweave\[ray\]"'):
        check_address("auto")


def test_an_index_without_vectors_has_nothing_to_encode(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The bridge opened in 1932.", "utf-8")
    kb = str(tmp_path / "kb")
    told = refused("index", str(tmp_path / "a.txt"), "--kb", kb, "--embedding", "none", "--ray")
    assert "leave out --ray" in told
