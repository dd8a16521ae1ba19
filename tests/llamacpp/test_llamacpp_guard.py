"""The engine never takes the process down: what may crash is tried in a child process first."""

from __future__ import annotations

import json
import logging
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("gguf", reason="writing a test model needs the gguf package")
pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")

import tiny_gguf
from ragweave.errors import UnusableModelError, UsageError
from ragweave.llamacpp import LlamaCppChat, binding, child, engine, guard, verdicts
from ragweave.llamacpp.gguf import GGUFFacts, read_gguf
from ragweave.llamacpp.guard import (
    Outcome,
    Speed,
    extra_buffers,
    run_trial,
)
from ragweave.llamacpp.measuring import measure_buffers

AMX = "CPU : AVX512 = 1 | AMX_INT8 = 1 | REPACK = 1 | "
PLAIN = "CPU : AVX2 = 1 | REPACK = 1 | "
DIES = (
    f"import os, signal; print({child.BEGAN!r}, flush=True); os.kill(os.getpid(), signal.SIGSEGV)"
)
needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGWEAVE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def facts(tiny: Path) -> GGUFFacts:
    return read_gguf(tiny)


class Trials:
    """Outcomes by whether extra buffers are on, and what was tried."""

    def __init__(self, on: Outcome, off: Outcome | None = None) -> None:
        self.outcomes = {True: on, False: off or Outcome(speed=Speed(1, 1))}
        self.tried: list[bool] = []
        self.settings: list[dict[str, Any]] = []

    def __call__(self, facts: GGUFFacts, settings: dict[str, Any]) -> Outcome:
        self.settings.append(settings)
        self.tried.append(settings["extra_buffers"])
        return self.outcomes[settings["extra_buffers"]]


DEAD, RUNS = Outcome(ending="SIGSEGV"), Outcome(speed=Speed(1, 1))
KILLED, LATE = Outcome(ending="SIGKILL"), Outcome(ending="a timeout after 120 s")


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build with a GPU, as far as the guard can see."""
    lib = SimpleNamespace(llama_supports_gpu_offload=lambda: True)
    for module in (guard, binding):
        monkeypatch.setattr(module, "bind", lambda: lib)


@pytest.mark.parametrize("info", [AMX, PLAIN])
def test_every_processor_has_a_model_tried_once(facts: GGUFFacts, info: str) -> None:
    trial = Trials(RUNS)
    assert extra_buffers(facts, "auto", trial=trial, info=info)
    assert extra_buffers(facts, "auto", trial=trial, info=info)
    assert trial.tried == [True]


@pytest.mark.usefixtures("on_gpu")
@pytest.mark.parametrize(
    "settings", [{"n_gpu_layers": 0}, {"n_gpu_layers": 1}, {"flash_attention": True}]
)
def test_the_child_loads_the_model_as_the_engine_will(
    facts: GGUFFacts, settings: dict[str, Any]
) -> None:
    trial = Trials(DEAD)
    others = {"n_ctx": 512, "n_threads": None}
    assert not extra_buffers(facts, "auto", {**settings, **others}, trial=trial, info=AMX)
    assert trial.settings == [{**settings, "extra_buffers": extra} for extra in (True, False)]


@pytest.mark.usefixtures("on_gpu")
def test_where_the_layers_are_decides_which_verdict_counts(facts: GGUFFacts) -> None:
    """On the GPU nothing is repacked: what ran there may crash on the processor."""
    runs, dies = Trials(RUNS), Trials(DEAD)
    assert extra_buffers(facts, "auto", {"n_gpu_layers": -1}, trial=runs, info=AMX)
    assert not extra_buffers(facts, "auto", {"n_gpu_layers": 0}, trial=dies, info=AMX)
    assert not extra_buffers(facts, "auto", {"n_gpu_layers": 1}, trial=dies, info=AMX)
    assert extra_buffers(facts, "auto", {"n_gpu_layers": 99}, trial=dies, info=AMX)
    assert (runs.tried, dies.tried) == ([True], [True, False] * 2)


@pytest.mark.usefixtures("on_gpu")
def test_another_gpu_has_its_own_verdict(facts: GGUFFacts, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where machines with two kinds of GPU share a home."""
    trial = Trials(RUNS)
    for name in ("NVIDIA H100", "NVIDIA V100", "NVIDIA V100"):
        monkeypatch.setattr(guard, "gpu_names", lambda name=name: (name,))
        for layers in (-1, 1, 0):
            assert extra_buffers(facts, "auto", {"n_gpu_layers": layers}, trial=trial, info=PLAIN)
    assert [one["n_gpu_layers"] for one in trial.settings] == [-1, 1, 0, -1, 1]


@pytest.mark.skipif(sys.platform == "win32", reason="ggml can't be asked there")
def test_devices_are_named_and_the_processor_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    assert binding.bind().llama_supports_gpu_offload() is bool(binding.gpu_names())
    monkeypatch.setattr(binding, "_GPUS", (0, 1, 2))
    assert all(binding.gpu_names())
    assert binding.gpu_names()


def test_the_engine_s_settings_reach_the_child(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = Trials(RUNS)
    monkeypatch.setattr(guard, "run_trial", trial)
    model = LlamaCppChat(
        path=tiny, n_threads=1, n_gpu_layers=0, flash_attention=False, max_tokens=1
    )
    model.invoke("hello")
    model.close()
    loaded = {"n_gpu_layers": 0, "flash_attention": False, "extra_buffers": True}
    assert trial.settings == [loaded]


def test_another_processor_has_its_own_verdict(
    facts: GGUFFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = Trials(RUNS)
    for name in ("one", "two", "two"):
        monkeypatch.setattr(verdicts, "_processor", lambda name=name: name)
        assert extra_buffers(facts, "auto", trial=trial, info=PLAIN)
    assert trial.tried == [True, True]


def test_a_crash_switches_extra_buffers_off_says_so_once_and_is_remembered(
    facts: GGUFFacts, caplog: pytest.LogCaptureFixture
) -> None:
    trial = Trials(DEAD)
    with caplog.at_level(logging.WARNING, "ragweave.llamacpp"):
        assert not extra_buffers(facts, "auto", trial=trial, info=AMX)
        assert not extra_buffers(facts, "auto", trial=trial, info=AMX)
    assert trial.tried == [True, False]
    assert len(caplog.records) == 1
    said = caplog.text
    assert "SIGSEGV" in said
    assert "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16" in said
    assert "gcc-13" in said


def test_a_crash_without_amx_does_not_blame_amx(
    facts: GGUFFacts, caplog: pytest.LogCaptureFixture
) -> None:
    assert not extra_buffers(facts, "auto", trial=Trials(DEAD), info=PLAIN)
    assert "SIGSEGV" in caplog.text
    assert guard.REBUILD in caplog.text
    assert "amx" not in caplog.text


def test_the_verdict_is_for_this_build_processor_and_kind_of_model(
    facts: GGUFFacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = Trials(DEAD)
    extra_buffers(facts, "auto", trial=trial, info=AMX)
    extra_buffers(facts, "auto", trial=trial, info=AMX + "AMX_BF16 = 1 | ")
    assert trial.tried == [True, False] * 2
    other = read_gguf(tiny_gguf.write(tmp_path / "q8.gguf", numbers="q8_0"))
    extra_buffers(other, "auto", trial=trial, info=AMX)
    assert trial.tried == [True, False] * 3
    monkeypatch.setattr(verdicts, "_build", lambda: "0.9.9")
    extra_buffers(facts, "auto", trial=trial, info=AMX)
    assert trial.tried == [True, False] * 4


def test_a_verdict_that_cannot_be_read_or_kept_is_made_anew(
    facts: GGUFFacts, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = Trials(DEAD)
    extra_buffers(facts, "auto", trial=trial, info=AMX)
    (kept,) = (cache / "llamacpp").iterdir()
    assert json.loads(kept.read_text("utf-8"))["cause"] == "SIGSEGV"
    kept.write_text("{", "utf-8")
    assert not extra_buffers(facts, "auto", trial=trial, info=AMX)
    assert trial.tried == [True, False] * 2
    (cache.parent / "file").write_text("", "utf-8")
    monkeypatch.setenv("RAGWEAVE_CACHE", str(cache.parent / "file"))
    assert not extra_buffers(facts, "auto", trial=trial, info=AMX)


def test_a_library_of_one_s_own_has_its_own_verdict(
    facts: GGUFFacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock = verdicts.library_file()
    assert extra_buffers(facts, "auto", trial=Trials(RUNS), info=AMX)
    files = {stock}
    for name in ("one", "two"):
        monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(tmp_path / name))
        assert not extra_buffers(facts, "auto", trial=Trials(DEAD), info=AMX)
        files.add(verdicts.library_file())
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "libggml-cpu.so").write_bytes(b"rebuilt")
    assert len({*files, verdicts.library_file()}) == 4
    monkeypatch.delenv("LLAMA_CPP_LIB_PATH")
    assert verdicts.library_file() == stock
    assert extra_buffers(facts, "auto", trial=Trials(DEAD), info=AMX)


@pytest.mark.parametrize(("outcome", "tried"), [(RUNS, [True]), (DEAD, [True, False])])
def test_a_verdict_that_cannot_be_written_holds_in_this_process_with_one_warning(
    facts: GGUFFacts,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    outcome: Outcome,
    tried: list[bool],
) -> None:
    (cache.parent / "file").write_text("", "utf-8")
    monkeypatch.setenv("RAGWEAVE_CACHE", str(cache.parent / "file"))
    trial = Trials(outcome)
    first = extra_buffers(facts, "auto", trial=trial, info=PLAIN)
    assert extra_buffers(facts, "auto", trial=trial, info=PLAIN) is first is (outcome is RUNS)
    assert trial.tried == tried
    assert not extra_buffers(facts, "auto", trial=Trials(DEAD), info=AMX)
    assert caplog.text.count("RAGWEAVE_CACHE") == 1


@pytest.mark.parametrize(("repack", "extra"), [("on", True), ("off", False)])
def test_who_says_what_he_wants_has_nothing_tried(
    facts: GGUFFacts, repack: guard.Repack, extra: bool
) -> None:
    trial = Trials(DEAD)
    assert extra_buffers(facts, repack, trial=trial, info=AMX) is extra
    assert trial.tried == []


def test_a_model_that_dies_either_way_is_one_clear_error(facts: GGUFFacts) -> None:
    with pytest.raises(UnusableModelError, match=r"SIGSEGV.*SIGILL.*rebuild") as caught:
        extra_buffers(facts, "auto", trial=Trials(DEAD, Outcome(ending="SIGILL")), info=AMX)
    assert isinstance(caught.value, UsageError)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("on_gpu")
@pytest.mark.parametrize(("layers", "without"), [(-1, True), (1, True), (0, False)])
def test_a_crash_on_the_gpu_is_told_how_to_do_without_it(
    facts: GGUFFacts, layers: int, without: bool
) -> None:
    aborts = Trials(Outcome(ending="SIGABRT"), Outcome(ending="SIGABRT"))
    with pytest.raises(UnusableModelError, match="rebuild") as caught:
        extra_buffers(facts, "auto", {"n_gpu_layers": layers}, trial=aborts, info=PLAIN)
    assert ("n_gpu_layers=0" in str(caught.value)) is without


@pytest.mark.parametrize("ended", [KILLED, LATE], ids=["killed", "late"])
def test_a_child_that_was_killed_from_outside_is_no_verdict(
    facts: GGUFFacts, cache: Path, caplog: pytest.LogCaptureFixture, ended: Outcome
) -> None:
    assert not extra_buffers(facts, "auto", trial=Trials(ended), info=AMX)
    assert not cache.exists()
    assert ("memory" in caplog.text) is (ended is KILLED)
    assert ("tries again" in caplog.text) is (ended is LATE)
    assert "pip install" not in caplog.text


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (guard.NAN, "to make it faster"),
        ("llama.cpp can't load m.gguf: unable to allocate CPU_REPACK buffer", "more memory"),
        ("llama_decode returned -3: compute failed", "tries again"),
    ],
)
def test_a_trial_that_reports_an_error_is_told_with_what_helps(
    facts: GGUFFacts, caplog: pytest.LogCaptureFixture, error: str, advice: str
) -> None:
    assert not extra_buffers(facts, "auto", trial=Trials(Outcome(error=error)), info=PLAIN)
    assert f"failed in a trial with weights repacked for this processor ({error})" in caplog.text
    assert advice in caplog.text


def test_a_processor_with_amx_whose_models_cannot_be_tried_has_one_warning(
    facts: GGUFFacts, caplog: pytest.LogCaptureFixture
) -> None:
    untried = Trials(Outcome(ending="no Python interpreter to run it with", began=False))
    with caplog.at_level(logging.WARNING, "ragweave.llamacpp"):
        assert extra_buffers(facts, "auto", trial=untried, info=PLAIN)
        assert not caplog.records
        assert not extra_buffers(facts, "auto", trial=untried, info=AMX)
    (one,) = caplog.records
    assert "no Python interpreter" in one.getMessage()
    assert "repack=on" in one.getMessage()


@pytest.mark.parametrize("ended", [KILLED, LATE], ids=["killed", "late"])
@pytest.mark.parametrize("first", [DEAD, KILLED], ids=["crashed", "killed"])
def test_two_children_killed_from_outside_are_told_of_memory(
    facts: GGUFFacts, cache: Path, first: Outcome, ended: Outcome
) -> None:
    with pytest.raises(UnusableModelError, match=r"could not be tried.*memory") as caught:
        extra_buffers(facts, "auto", trial=Trials(first, ended), info=PLAIN)
    assert "rebuild" not in str(caught.value)
    assert not cache.exists()


@pytest.mark.parametrize(("info", "extra"), [(PLAIN, True), (AMX, False)])
def test_where_no_child_can_be_started_the_model_is_loaded_the_safe_way(
    facts: GGUFFacts, cache: Path, monkeypatch: pytest.MonkeyPatch, info: str, extra: bool
) -> None:
    """As in a program that embeds Python, whose executable is no interpreter."""
    for executable in ("", "/nowhere/python", "/bin/false"):
        monkeypatch.setattr(sys, "executable", executable)
        assert extra_buffers(facts, "auto", info=info) is extra
    assert not cache.exists()


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.modules['llama_cpp'] = None\nfrom ragweave.llamacpp import trial\n"
        "sys.exit(trial.main(sys.argv[1:]))",
        f"print({child.BEGAN!r}); raise MemoryError",
    ],
    ids=["the library loads in the parent alone", "MemoryError"],
)
@pytest.mark.parametrize(("info", "extra"), [(PLAIN, True), (AMX, False)])
def test_an_exception_in_the_child_is_no_crash(
    facts: GGUFFacts,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    info: str,
    extra: bool,
) -> None:
    def command(_module: str, job: dict[str, Any]) -> list[str]:
        return [sys.executable, "-c", code, json.dumps(job)]

    monkeypatch.setattr(child, "_command", command)
    assert extra_buffers(facts, "auto", info=info) is extra
    assert not cache.exists()


@pytest.mark.parametrize("first", [DEAD, KILLED], ids=["crashed", "killed"])
def test_a_second_child_that_tells_nothing_leaves_extra_buffers_off(
    facts: GGUFFacts, first: Outcome
) -> None:
    second = Outcome(ending="exit code 1", began=False)
    assert not extra_buffers(facts, "auto", trial=Trials(first, second), info=PLAIN)


def test_an_error_of_the_model_is_left_to_its_loading(facts: GGUFFacts, cache: Path) -> None:
    short = Outcome(error="memory is short")
    assert extra_buffers(facts, "auto", trial=Trials(short, short), info=AMX)
    assert not cache.exists()


def test_numbers_that_only_come_without_extra_buffers_switch_them_off(facts: GGUFFacts) -> None:
    assert not extra_buffers(facts, "auto", trial=Trials(Outcome(error="NaN")), info=AMX)


SLOW, FAST = Outcome(speed=Speed(40, 17)), Outcome(speed=Speed(55, 15))


@pytest.mark.parametrize(("on", "off", "extra"), [(SLOW, FAST, False), (FAST, SLOW, True)])
def test_what_is_measured_to_be_faster_serves_later_loads(
    facts: GGUFFacts, on: Outcome, off: Outcome, extra: bool
) -> None:
    measured = Trials(on, off)
    found = measure_buffers(facts, "auto", {"prompt": 8}, trial=measured, info=PLAIN)
    assert found.extra is extra
    assert found.kept
    assert found.outcomes == {True: on, False: off}
    assert measured.tried == [True, *(True, False, False, True, True, False)]
    later = Trials(DEAD)
    assert extra_buffers(facts, "auto", trial=later, info=PLAIN) is extra
    assert extra_buffers(facts, "on", trial=later, info=PLAIN)
    assert later.tried == []


def test_what_is_faster_for_one_model_says_nothing_of_another(
    facts: GGUFFacts, tmp_path: Path
) -> None:
    measure_buffers(facts, "auto", {}, trial=Trials(SLOW, FAST), info=PLAIN)
    larger = read_gguf(tiny_gguf.write(tmp_path / "larger.gguf", tiny_gguf.Shape(layers=3)))
    assert (larger.architecture, larger.quantisation) == (facts.architecture, facts.quantisation)
    assert not extra_buffers(facts, "auto", info=PLAIN)
    assert extra_buffers(larger, "auto", info=PLAIN)
    measure_buffers(facts, "auto", {}, trial=Trials(DEAD), info=PLAIN)
    assert not extra_buffers(larger, "auto", info=PLAIN)


def test_measuring_again_can_change_the_choice(facts: GGUFFacts) -> None:
    measure_buffers(facts, "auto", {}, trial=Trials(SLOW, FAST), info=PLAIN)
    assert measure_buffers(facts, "auto", {}, trial=Trials(FAST, SLOW), info=PLAIN).extra
    assert extra_buffers(facts, "auto", info=PLAIN)


@given(speeds=st.lists(st.floats(20, 60), min_size=6, max_size=6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_only_a_choice_that_wins_most_turns_clearly_is_kept(
    facts: GGUFFacts, cache: Path, speeds: list[float]
) -> None:
    shutil.rmtree(cache, ignore_errors=True)
    extra_buffers(facts, "auto", trial=Trials(RUNS), info=PLAIN)
    before = set(cache.rglob("*"))
    tried: dict[bool, list[float]] = {True: [], False: []}

    def trial(_facts: GGUFFacts, settings: dict[str, Any]) -> Outcome:
        prefill = speeds[sum(map(len, tried.values()))]
        tried[settings["extra_buffers"]].append(prefill)
        return Outcome(speed=Speed(prefill, 20))

    found = measure_buffers(facts, "auto", {}, trial=trial, info=PLAIN)
    added = set(cache.rglob("*")) != before
    assert added is found.kept is (found.verdict is not None)
    if found.verdict is not None:
        won, lost = tried[found.extra], tried[not found.extra]
        assert sorted(won)[1] > max(lost)
    else:
        assert found.extra


def test_a_crash_found_by_measuring_switches_extra_buffers_off_for_good(facts: GGUFFacts) -> None:
    """As where only a longer batch crashes."""
    extra_buffers(facts, "auto", trial=Trials(RUNS), info=PLAIN)
    trial = Trials(DEAD)
    first = measure_buffers(facts, "auto", {}, trial=trial, info=PLAIN)
    again = measure_buffers(facts, "auto", {}, trial=trial, info=PLAIN)
    assert (first.extra, again.extra) == (False, False)
    assert again.verdict is not None
    assert again.verdict.cause == "SIGSEGV"
    assert trial.tried == [True, False, False]
    assert not extra_buffers(facts, "auto", trial=trial, info=PLAIN)


@pytest.mark.parametrize(("repack", "extra"), [("on", True), ("off", False)])
def test_a_choice_by_name_is_measured_alone_and_not_kept(
    facts: GGUFFacts, cache: Path, repack: guard.Repack, extra: bool
) -> None:
    trial = Trials(SLOW, FAST)
    assert measure_buffers(facts, repack, {}, trial=trial, info=PLAIN).extra is extra
    assert trial.tried == [extra]
    assert not cache.exists()


@pytest.mark.parametrize(
    "on",
    [
        Outcome(ending="SIGKILL"),
        Outcome(ending="a timeout after 1 s"),
        Outcome(error="unable to allocate CPU_REPACK buffer"),
    ],
)
def test_a_failure_that_may_not_happen_again_decides_nothing(
    facts: GGUFFacts, cache: Path, on: Outcome
) -> None:
    extra_buffers(facts, "auto", trial=Trials(on, FAST), info=AMX)
    assert not cache.exists()
    extra_buffers(facts, "auto", trial=Trials(RUNS), info=PLAIN)
    assert measure_buffers(facts, "auto", {}, trial=Trials(on, FAST), info=PLAIN).extra
    assert len(list((cache / "llamacpp").iterdir())) == 1


def test_where_nothing_can_be_kept_later_loads_are_said_to_stay_as_they_were(
    facts: GGUFFacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    monkeypatch.setenv("RAGWEAVE_CACHE", str(tmp_path / "file"))
    found = measure_buffers(facts, "auto", {}, trial=Trials(SLOW, FAST), info=PLAIN)
    assert found.extra
    assert not found.kept
    assert found.verdict is not None
    assert not found.verdict.extra
    assert extra_buffers(facts, "auto", trial=Trials(RUNS), info=PLAIN)


@needs_signals
def test_a_real_child_that_dies_by_a_signal_is_survived(
    facts: GGUFFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = child._command

    def command(module: str, job: dict[str, Any]) -> list[str]:
        dies = [sys.executable, "-c", DIES]
        return dies if job["extra_buffers"] else whole(module, job)

    monkeypatch.setattr(child, "_command", command)
    assert run_trial(facts, {"extra_buffers": True}).ending == signal.SIGSEGV.name
    monkeypatch.setattr(guard, "system_info", lambda: AMX)
    loaded: list[bool] = []
    real = engine.Core

    def core(*args: Any, extra_buffers: bool, **kwargs: Any) -> Any:
        loaded.append(extra_buffers)
        return real(*args, extra_buffers=extra_buffers, **kwargs)

    monkeypatch.setattr(engine, "Core", core)
    model = LlamaCppChat(path=str(facts.path), n_threads=1, max_tokens=2)
    assert model.invoke("hello").usage_metadata["output_tokens"] <= 2
    assert loaded == [False]
    assert "extra buffers off" in model.placement
    model.close()


def test_a_real_child_decodes_and_measures(facts: GGUFFacts) -> None:
    loaded = {"n_threads": 1, "n_gpu_layers": 0, "flash_attention": False}
    done = run_trial(facts, {"extra_buffers": True, **loaded})
    assert done.ending == done.error == ""
    assert done.speed is not None
    assert done.speed.prefill > 0
    assert done.speed.generation > 0


def test_a_real_child_says_what_is_wrong_with_a_model(tmp_path: Path) -> None:
    facts = read_gguf(tiny_gguf.write(tmp_path / "m.gguf", architecture="qwen99"))
    assert "qwen99" in run_trial(facts, {"extra_buffers": True}).error


def test_repack_is_checked(tiny: Path) -> None:
    with pytest.raises(ValueError, match="repack"):
        LlamaCppChat(path=str(tiny), repack="perhaps")


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_the_cache_has_a_place_on_each_platform(
    platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAGWEAVE_CACHE")
    monkeypatch.setattr(sys, "platform", platform)
    assert "ragweave" in verdicts.cache_folder().parts


def test_a_verdict_on_speed_is_of_a_processor_and_a_split_model_s_first_file(
    facts: GGUFFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = verdicts.speed_file(facts, PLAIN)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(verdicts, "_processor", lambda: "another")
        assert file != verdicts.speed_file(facts, PLAIN), "what is faster there need not be here"
    assert file == verdicts.speed_file(replace(facts, size=facts.size + 9, others=9), PLAIN)
    assert file != verdicts.speed_file(replace(facts, size=facts.size + 9), PLAIN)
