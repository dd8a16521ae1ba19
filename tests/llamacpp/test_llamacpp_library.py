"""A library that was compiled for another processor is an error, not the end of the process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")

from ragweave.errors import ModelError
from ragweave.llamacpp import binding, child, library
from ragweave.llamacpp.child import Ending, run_child
from ragweave.llamacpp.library import check_library

DIES = "import os, signal; print({!r}, flush=True); os.kill(os.getpid(), signal.{})"
needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGWEAVE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def dying(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    code = DIES.format(child.BEGAN, name)
    monkeypatch.setattr(child, "_command", lambda *_: [sys.executable, "-c", code])


@needs_signals
def test_a_library_for_another_processor_is_one_error(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    dying(monkeypatch, "SIGILL")
    monkeypatch.setattr(binding, "_LOADED", {})
    with pytest.raises(ModelError, match=r"SIGILL.*another processor.*pip install") as caught:
        binding.bind()
    assert "\n" not in str(caught.value)
    assert not cache.exists()


@needs_signals
def test_a_child_that_was_killed_says_nothing_of_the_library(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    dying(monkeypatch, "SIGKILL")
    check_library()
    assert not cache.exists()


def test_a_library_that_loads_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Ending] = []

    def counted(*args: object) -> Ending:
        ran.append(run_child(*args))  # type: ignore[arg-type]
        return ran[-1]

    monkeypatch.setattr(library, "run_child", counted)
    check_library()
    check_library()
    (one,) = ran
    assert one.result is not None
    assert one.result["info"]


def test_a_child_that_cannot_be_started_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    for executable in ("", "/nowhere/python", "/bin/false"):
        monkeypatch.setattr(sys, "executable", executable)
        check_library()
    assert not cache.exists()


def test_a_missing_package_is_not_looked_for_in_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    monkeypatch.setattr(library, "run_child", pytest.fail)
    check_library()


def test_a_cache_that_may_not_be_searched_holds_nothing(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    """No `chmod`: root may search every folder."""

    def refused(_path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_file", refused)
    monkeypatch.setattr(library, "library_file", lambda: cache / "kept.json")
    tried: list[object] = []

    def run(*args: object) -> Ending:
        tried.append(args)
        return Ending("SIGKILL")

    monkeypatch.setattr(library, "run_child", run)
    check_library()
    assert len(tried) == 1
