from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scripted import ScriptedChat, Seen
from tests.training.labels.rows import label, read, write

from ragweave.datasets.rows import Row
from ragweave.errors import ModelError, UsageError
from ragweave.training.job import TrainingStoppedError
from ragweave.training.labels import JudgeLabeler, LabelConfig, RewriteLabeler, source
from ragweave.training.labels.failures import is_model_error
from ragweave.training.labels.journal import LabelJournal, report_path
from ragweave.training.rows import read_rows

ROWS = [
    {"id": f"q{index}", "question": f"Q{index}?", "answers": [f"answer {index}"]}
    for index in range(12)
]


def says(seen: Seen) -> str:
    return f"answer {seen.text[1:-1]}" if int(seen.text[1:-1]) % 2 else "no idea"


def judge(proxy: ScriptedChat, **settings: Any) -> JudgeLabeler:
    return JudgeLabeler(proxy=proxy, proxy_spec="m", **settings)


def failing(bad: set[int], error: Callable[[], Exception]) -> Callable[[Seen], str | Exception]:
    return lambda seen: error() if int(seen.text[1:-1]) in bad else says(seen)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "qa.jsonl", ROWS)


def test_rows_stand_in_source_order_and_the_same_bytes_come_again(
    file: Path, tmp_path: Path
) -> None:
    one = label(file, judge(ScriptedChat(replies=says, delay=0.001)), tmp_path / "one.jsonl")
    two = label(
        file,
        judge(ScriptedChat(replies=says)),
        tmp_path / "two.jsonl",
        config=LabelConfig(concurrency=1),
    )
    assert [row["id"] for row in read(one.path)] == [row["id"] for row in ROWS]
    assert one.path.read_bytes() == two.path.read_bytes()
    assert one.report.read_bytes() == two.report.read_bytes()
    assert not list(tmp_path.glob("*.partial"))


def test_gzipped_rows_are_the_same_bytes_too(file: Path, tmp_path: Path) -> None:
    plain = label(file, judge(ScriptedChat(replies=says)), tmp_path / "a.jsonl")
    for name in ("b.jsonl.gz", "c.jsonl.gz"):
        label(file, judge(ScriptedChat(replies=says)), tmp_path / name)
    packed = (tmp_path / "b.jsonl.gz").read_bytes()
    assert packed == (tmp_path / "c.jsonl.gz").read_bytes()
    assert gzip.decompress(packed) == plain.path.read_bytes()
    assert len(read_rows(tmp_path / "b.jsonl.gz", "judge")) == 12


def test_a_field_that_the_spec_names_must_be_in_the_file(file: Path) -> None:
    with pytest.raises(
        UsageError, match=r"no row up to here has the field 'ctxs' \(passages=… names"
    ):
        source.open_source(f"jsonl:{file}?passages=ctxs")


def test_as_many_questions_at_once_as_are_asked_for(file: Path, tmp_path: Path) -> None:
    proxy = ScriptedChat(replies=says, together=4)
    label(file, judge(proxy), tmp_path / "out.jsonl", config=LabelConfig(concurrency=4))
    assert proxy.most_at_once == 4
    with pytest.raises(UsageError, match="--concurrency"):
        LabelConfig(concurrency=0)


def test_a_failed_call_is_kept_told_and_tried_again_when_asked(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    broken = ScriptedChat(replies=failing({3, 7}, lambda: ModelError("it broke")))
    with pytest.raises(
        ModelError, match=r"2 of 12 rows failed, .*qa.jsonl:4: ModelError: it broke"
    ):
        label(file, judge(broken), out)
    assert not out.exists()
    well = ScriptedChat(replies=says)
    with pytest.raises(ModelError, match="2 of 12 rows failed"):
        label(file, judge(well), out)
    assert not well.seen
    done = label(file, judge(well), out, config=LabelConfig(retry_failed=True))
    assert sorted(one.text for one in well.seen) == ["Q3?", "Q7?"]
    assert done.rows == 12


def test_failed_rows_may_be_left_out(file: Path, tmp_path: Path) -> None:
    broken = ScriptedChat(replies=failing({3}, lambda: ModelError("it broke")))
    done = label(
        file,
        judge(broken, balance=False),
        tmp_path / "out.jsonl",
        config=LabelConfig(drop_failed=True),
    )
    assert (done.rows, done.dropped) == (11, {"model call failed": 1})
    for again in (None, LabelConfig(retry_failed=True, drop_failed=True)):
        assert label(file, judge(broken, balance=False), done.path, config=again).before
    with pytest.raises(UsageError, match=r"failed \(1\): --retry-failed has nothing .*delete it"):
        label(file, judge(broken, balance=False), done.path, config=LabelConfig(retry_failed=True))


def test_a_server_that_is_down_ends_the_sitting_soon(tmp_path: Path) -> None:
    rows = [{"question": f"Q{index}?", "answers": ["x"]} for index in range(200)]
    down = ScriptedChat(replies=[ModelError("down")])
    file = write(tmp_path / "qa.jsonl", rows)
    with pytest.raises(ModelError, match="20 model calls failed one after the other"):
        label(file, judge(down), tmp_path / "out.jsonl", config=LabelConfig(concurrency=2))
    assert len(down.seen) < 30


def test_other_settings_do_not_mix_with_what_is_begun(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    broken = ScriptedChat(replies=failing({3}, lambda: ModelError("it broke")))
    with pytest.raises(ModelError):
        label(file, judge(broken), out)
    for labeler, limit, said in (
        (judge(broken, theta=0.4), None, "theta was 0.5, now 0.4"),
        (JudgeLabeler(proxy=broken, proxy_spec="n"), None, 'draft was "m", now "n"'),
        (judge(broken), 5, "limit was null, now 5"),
    ):
        with pytest.raises(UsageError, match=said):
            label(file, labeler, out, limit=limit)
    write(file, ROWS[:-1])
    with pytest.raises(UsageError, match="source was"):
        label(file, judge(broken), out)


class Named(ScriptedChat):
    """A model object that says what it runs."""

    runs: str = ""

    @property
    def model_name(self) -> str:
        return self.runs


def by_judge(model: Named) -> JudgeLabeler:
    return JudgeLabeler(proxy=model, balance=False)


def by_teacher(model: Named) -> RewriteLabeler:
    return RewriteLabeler(teacher=model, proxy=ScriptedChat(replies=["A."]))


@pytest.mark.parametrize(("labeler", "name"), [(by_judge, "draft"), (by_teacher, "annotation")])
def test_another_model_object_is_other_settings(
    file: Path, tmp_path: Path, labeler: Callable[[Named], Any], name: str
) -> None:
    out, broken = tmp_path / "out.jsonl", failing({3}, lambda: ModelError("it broke"))
    said = "<Claims> <Claim(Varn lies by the sea)> <Search(True)> <Query(Varn sea)> </Claims>"
    replies = broken if name == "draft" else [said, ModelError("it broke")]
    with pytest.raises(ModelError):
        label(file, labeler(Named(runs="one", replies=replies)), out)
    two = Named(runs="two", replies=says)
    told = f'{name} was "object:Named:one", now "object:Named:two"'
    with pytest.raises(UsageError, match=told):
        label(file, labeler(two), out, config=LabelConfig(retry_failed=True))
    assert not two.seen


def test_a_labelling_of_an_earlier_version_takes_any_model_object(
    file: Path, tmp_path: Path
) -> None:
    done = label(file, by_judge(Named(runs="one", replies=says)), tmp_path / "out.jsonl")
    report = json.loads(done.report.read_text("utf-8"))
    assert report["settings"]["draft"] == "object:Named:one"
    report["settings"]["draft"] = "a model"  # as earlier versions wrote it
    done.report.write_text(json.dumps(report), "utf-8")
    assert label(file, by_judge(Named(runs="one")), done.path).before
    with pytest.raises(UsageError, match='draft was "a model", now "m"'):
        label(file, judge(ScriptedChat(), balance=False), done.path)


def test_settings_may_change_while_nothing_is_labelled(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    wrong = ScriptedChat(replies=[UsageError("no such setting")])
    with pytest.raises(UsageError):
        label(file, JudgeLabeler(proxy=wrong, proxy_spec="wrong"), out)
    assert label(file, judge(ScriptedChat(replies=says)), out).rows == 12


def test_a_finished_file_is_left_alone(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    first = label(file, judge(ScriptedChat(replies=says)), out)
    proxy = ScriptedChat(replies=says)
    again = label(file, judge(proxy), out)
    assert (again.before, again.rows, again.counts) == (True, first.rows, first.counts)
    assert not proxy.seen
    with pytest.raises(UsageError, match="already exists, made with other settings: theta"):
        label(file, judge(proxy, theta=0.1), out)
    out.write_text("mine\n", "utf-8")
    with pytest.raises(UsageError, match="has been changed"):
        label(file, judge(proxy), out)
    first.report.unlink()
    with pytest.raises(UsageError, match="has no report that says"):
        label(file, judge(proxy), out)
    assert out.read_text("utf-8") == "mine\n"


def test_two_processes_do_not_write_one_file(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with LabelJournal(out, {}), pytest.raises(UsageError, match="another process is working"):
        label(file, judge(ScriptedChat(replies=says)), out)


def test_a_reply_of_a_row_under_way_is_not_asked_for_again(tmp_path: Path) -> None:
    file = write(tmp_path / "qa.jsonl", [{"id": "a", "question": "Where is Varn?"}])
    claims = "<Claims> <Claim(Varn lies by the sea)> <Search(True)> <Query(Varn sea)> </Claims>"
    proxy = ScriptedChat(replies=["Varn lies by the sea."])

    def labeler(said: str | Exception) -> RewriteLabeler:
        return RewriteLabeler(teacher=ScriptedChat(replies=[said]), proxy=proxy)

    with pytest.raises(ModelError):
        label(file, labeler(ModelError("down")), tmp_path / "out.jsonl")
    done = label(
        file, labeler(claims), tmp_path / "out.jsonl", config=LabelConfig(retry_failed=True)
    )
    assert len(proxy.seen) == 1
    assert read(done.path)[0]["draft"] == "Varn lies by the sea."


@given(st.floats(0, 1))
def test_a_partial_cut_anywhere_goes_on_to_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, share: float
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    file, out = write(folder / "qa.jsonl", ROWS[:4]), folder / "out.jsonl"
    broken = ScriptedChat(replies=failing({3}, lambda: ModelError("it broke")))
    with pytest.raises(ModelError):
        label(file, judge(broken), out)
    partial = folder / "out.jsonl.partial"
    whole = partial.read_bytes()
    kept = round(share * len(whole))
    partial.write_bytes(whole[:kept])
    proxy = ScriptedChat(replies=says)
    label(file, judge(proxy), out, config=LabelConfig(retry_failed=True))
    calm = label(file, judge(ScriptedChat(replies=says)), folder / "calm.jsonl")
    assert out.read_bytes() == calm.path.read_bytes()
    durable = {
        record["at"]
        for line in whole[: whole[:kept].rfind(b"\n") + 1].splitlines()
        if "reply" in (record := json.loads(line)) or "made" in record
    }
    asked = {int(one.text[1:-1]) for one in proxy.seen}
    assert not asked & durable
    shutil.rmtree(folder)


def test_a_damaged_partial_is_told(file: Path, tmp_path: Path) -> None:
    (tmp_path / "out.jsonl.partial").write_text("what is this\n", "utf-8")
    with pytest.raises(UsageError, match=r"out.jsonl.partial:1: is damaged"):
        label(file, judge(ScriptedChat(replies=says)), tmp_path / "out.jsonl")


@pytest.mark.parametrize(
    "line",
    [
        '{"data": "plain", "dropped": "why"}',
        '{"at": "1", "data": "plain", "dropped": "why"}',
        '{"at": 1, "dropped": "why"}',
        '{"at": 1, "data": "plain", "made": []}',
        '{"at": 1, "reply": "draft"}',
        '{"at": 1, "data": "plain"}',
        "[1]",
    ],
)
def test_a_line_that_is_no_record_is_told_by_file_and_line(tmp_path: Path, line: str) -> None:
    with LabelJournal(tmp_path / "out.jsonl", {}):
        pass
    path = tmp_path / "out.jsonl.partial"
    path.write_text(f"{path.read_text('utf-8')}{line}\n", "utf-8")
    with (
        pytest.raises(UsageError, match=r"out.jsonl.partial:2: is damaged .*delete the file"),
        LabelJournal(tmp_path / "out.jsonl", {}),
    ):
        pass


def test_rows_are_read_back_through_one_open_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, real = [0], os.open

    def counted(*args: Any, **named: Any) -> Any:
        opened[0] += 1
        return real(*args, **named)

    with LabelJournal(tmp_path / "out.jsonl", {}) as partial:
        monkeypatch.setattr(Path, "open", counted)
        monkeypatch.setattr(os, "open", counted)
        monkeypatch.setattr(os, "fdopen", counted)
        for index in range(300):
            partial.add(index, "plain", "made", {"at": index, "text": "x" * 100})
            assert partial.row(partial.entries[index])["at"] == index
        assert [partial.row(partial.entries[index])["at"] for index in (7, 299, 0)] == [7, 299, 0]
    assert opened == [0], "the journal's own file is read"


class ClientError(Exception):
    """As a client library may call its own."""


def raised_by(package: str) -> Exception:
    space: dict[str, Any] = {"__name__": f"{package}.chat"}
    try:
        exec("raise ValueError('the server says: overloaded')", space)
    except ValueError as error:
        return error
    raise AssertionError


@pytest.mark.parametrize(
    ("error", "failed"),
    [
        (ModelError("down"), True),
        (ConnectionResetError("gone"), True),
        (TimeoutError("slow"), True),
        (ClientError("no"), True),
        (raised_by("langchain_openai"), True),
        (raised_by("langchain_core"), False),
        (KeyError("text"), False),
        (FileNotFoundError("shelf"), False),
    ],
)
def test_the_models_errors_fail_a_row_and_no_others(error: Exception, failed: bool) -> None:
    assert is_model_error(error) is failed


def test_a_bug_is_no_failed_row(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    bug = ScriptedChat(replies=failing({3}, lambda: KeyError("text")))
    with pytest.raises(KeyError, match="text"):
        label(file, judge(bug), out, config=LabelConfig(concurrency=1, drop_failed=True))
    assert not out.exists()
    done = label(file, judge(ScriptedChat(replies=says)), out)
    assert done.rows == 12


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
def test_a_disk_that_is_full_at_the_end_holds_no_half_file(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("ragweave.tools.files._sync", full)
        with pytest.raises(TrainingStoppedError, match=r"No space left.*all is kept in"):
            label(file, judge(ScriptedChat(replies=says)), tmp_path / name)
    assert {one.name for one in tmp_path.iterdir()} == {"qa.jsonl", f"{name}.partial"}
    proxy = ScriptedChat(replies=says)
    assert label(file, judge(proxy), tmp_path / name).rows == 12
    assert not proxy.seen


def test_rows_of_the_hub_name_it_and_no_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows(name: str, _settings: dict[str, str]) -> Iterator[Row]:
        for number, fields in enumerate(ROWS, start=1):
            yield Row(fields, f"hf:{name}, row {number}", number)

    monkeypatch.setattr(source, "hub_rows", rows)
    for spec, told in (
        ("hf:nq_open?split=train", {"hub": "nq_open", "split": "train"}),
        ("hf:nq_open", {"hub": "nq_open", "split": "validation"}),
        ("hf:nq_open?config=de", {"hub": "nq_open", "config": "de", "split": "validation"}),
    ):
        out = tmp_path / f"{len(spec)}.jsonl"
        done = label(spec, judge(ScriptedChat(replies=says)), out)
        found = read(done.path)[0]["source"]
        assert {key: found[key] for key in found if key in {"hub", "split", "config"}} == told
        assert "sha256" not in found
        assert label(spec, judge(ScriptedChat(replies=says)), out).before


def test_a_full_disk_keeps_what_is_labelled(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, wrote, real = tmp_path / "out.jsonl", [0], os.write

    def full(handle: int, line: bytes) -> int:
        wrote[0] += 1
        if wrote[0] > 8:
            raise OSError(28, "No space left on device")
        return real(handle, line if wrote[0] < 8 else line[:5])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(TrainingStoppedError, match="No space left"):
        label(file, judge(ScriptedChat(replies=says)), out)
    monkeypatch.undo()
    proxy = ScriptedChat(replies=says)
    assert label(file, judge(proxy), out).rows == 12
    assert len(proxy.seen) < 12


def test_limit_takes_the_first(file: Path, tmp_path: Path) -> None:
    done = label(
        file, judge(ScriptedChat(replies=says), balance=False), tmp_path / "o.jsonl", limit=5
    )
    assert [row["id"] for row in read(done.path)] == ["q0", "q1", "q2", "q3", "q4"]
    with pytest.raises(UsageError, match="--limit"):
        label(file, judge(ScriptedChat()), tmp_path / "p.jsonl", limit=0)


def test_a_place_that_cannot_be_written(file: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("", "utf-8")
    with pytest.raises(UsageError, match="cannot be written"):
        label(file, judge(ScriptedChat()), tmp_path / "taken" / "out.jsonl")


def test_killed_between_the_file_and_the_end_it_comes_out_the_same(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.jsonl"

    def killed(_partial: LabelJournal) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LabelJournal, "remove", killed)
        with pytest.raises(KeyboardInterrupt):
            label(file, judge(ScriptedChat(replies=says)), out)
    before = out.read_bytes()
    proxy = ScriptedChat(replies=says)
    done = label(file, judge(proxy), out)
    assert not proxy.seen
    assert done.rows == 12
    assert out.read_bytes() == before
    assert not list(tmp_path.glob("*.partial"))


def test_what_a_killed_writer_left_is_gone_when_the_file_is_done(
    file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    for path in (out, report_path(out)):
        (tmp_path / f".{path.name}.1-aa.new").write_text("half", "utf-8")
    done = label(file, judge(ScriptedChat(replies=says)), out)
    assert {one.name for one in tmp_path.iterdir()} == {file.name, out.name, done.report.name}


def test_one_question_too_long_for_the_model_stops_no_other(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    broken = ScriptedChat(replies=failing({5}, lambda: UsageError("the prompt is too long")))
    with pytest.raises(ModelError, match=r"1 of 12 rows failed.*the prompt is too long"):
        label(file, judge(broken), out, config=LabelConfig(concurrency=1))
    wrong = ScriptedChat(replies=[UsageError("no such setting")])
    with pytest.raises(UsageError, match="no such setting"):
        label(file, judge(wrong), tmp_path / "other.jsonl", config=LabelConfig(concurrency=1))
    assert len(wrong.seen) == 1


async def test_a_loop_that_runs_already_is_no_hindrance(file: Path, tmp_path: Path) -> None:
    assert label(file, judge(ScriptedChat(replies=says)), tmp_path / "out.jsonl").rows == 12


@pytest.mark.skipif(sys.platform == "win32", reason="a waiting thread can't be interrupted there")
async def test_ctrl_c_in_a_notebook_stops_the_labelling(file: Path, tmp_path: Path) -> None:
    def interrupted(seen: Seen) -> str:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return says(seen)

    slow = ScriptedChat(replies=interrupted, delay=10)
    out = tmp_path / "out.jsonl"
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # as a notebook's kernel has it
    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            label(file, judge(slow), out, limit=2, config=LabelConfig(concurrency=1))
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < 8
    assert len(slow.seen) == 1
    assert label(file, judge(ScriptedChat(replies=says)), out, limit=2).rows == 2
