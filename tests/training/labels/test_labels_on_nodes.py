"""Rows made by the processes of a cluster, here of this process: who keeps, who fails, who ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.scripted import ScriptedChat
from tests.tools.cluster.actors import Ray
from tests.training.labels.rows import label, read, write

from ragweave.errors import ModelError, UsageError
from ragweave.tools.process_errors import ProcessError
from ragweave.training.labels import JudgeLabeler, LabelConfig, LabelerSpec, cluster

if find_spec("ray") is None:
    pytest.skip('needs: pip install "ragweave[ray]"', allow_module_level=True)

ONE = LabelConfig(concurrency=1)


@pytest.fixture(autouse=True)
def nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def connected(_address: str) -> Iterator[Ray]:
        yield Ray(1, 1)

    monkeypatch.setattr(cluster, "connected", connected)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = [{"question": f"Q{index}?", "answers": ["1932"]} for index in range(4)]
    return write(tmp_path / "qa.jsonl", rows)


def judging(proxy: ScriptedChat) -> LabelerSpec:
    return LabelerSpec(lambda: JudgeLabeler(proxy=proxy, proxy_spec="m", balance=False))


def test_a_labeler_that_holds_models_is_not_sent(file: Path, tmp_path: Path) -> None:
    labeler = JudgeLabeler(proxy=ScriptedChat(replies=["1932"]), proxy_spec="m")
    with pytest.raises(UsageError, match="give a LabelerSpec"):
        label(file, labeler, tmp_path / "out.jsonl", ray="local")
    assert not list(tmp_path.glob("out*"))


def test_a_failed_row_is_tried_again_and_no_kept_reply_is_asked_for(
    file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    model = ScriptedChat(
        replies=lambda seen: ModelError("down") if seen.text == "Q2?" else "It was 1932."
    )
    with pytest.raises(ModelError, match=r"1 of 4 rows failed, the first with .*: down"):
        label(file, judging(model), out, ray="local", config=ONE)
    again = ScriptedChat(replies=["It was 1932."])
    config = LabelConfig(concurrency=1, retry_failed=True)
    label(file, judging(again), out, ray="local", config=config)
    assert len(again.seen) == 1
    assert [row["draft"] for row in read(out)] == ["It was 1932."] * 4


def test_an_error_of_ours_on_a_node_ends_the_work(file: Path, tmp_path: Path) -> None:
    broken = ScriptedChat(replies=lambda _seen: ZeroDivisionError("a fault"))
    with pytest.raises(ProcessError, match="a node: ZeroDivisionError: a fault"):
        label(file, judging(broken), tmp_path / "out.jsonl", ray="local", config=ONE)
