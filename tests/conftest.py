"""Shared test set-up: no network but marked loopback tests, no keys from the environment."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings

from tests.extras import Module, is_core, missing

for _name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "RAYON"):
    # One thread a worker. Read when a library is loaded, so set before any test file is imported.
    os.environ.setdefault(f"{_name}_NUM_THREADS", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # a GPU adds in no fixed order: trainings would not repeat
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
with suppress(ImportError):
    import uvloop  # noqa: F401 - keeps the socket class of its import: not the one that blocks
LOOPBACK = ["127.0.0.1"]
SLOW = ("evaluation/test_ray.py", "notebooks", "training", "cli", "serving", "docs", "evaluation", "extend")
"""What takes longest, first: with several workers, what begins last should end soon."""

settings.register_profile("usual", deadline=None, max_examples=60)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("RAGWEAVE_EXAMPLES", "usual"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `--nightly` ask for the slow tests."""
    parser.addoption("--nightly", action="store_true", help="run the slow tests too")


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep what commands remember of a user's questions out of the user's own folder."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


def pytest_configure() -> None:
    """Take Ctrl-C: a shell starts what runs in the background with it ignored, children too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the core tier, let `loopback` tests connect to 127.0.0.1, leave out the slow ones."""
    if not config.getoption("--nightly"):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("nightly")])
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]
    for item in items:
        if is_core(item.path, Path(__file__).parent):
            item.add_marker(pytest.mark.core)
        if item.get_closest_marker("loopback"):
            item.add_marker(pytest.mark.allow_hosts(LOOPBACK))
    if config.getoption("dist", "no") != "no" or hasattr(config, "workerinput"):
        items.sort(key=lambda item: _place(item.path))


def _place(path: Path) -> int:
    name = path.relative_to(Path(__file__).parent).as_posix()
    slow = (at for at, prefix in enumerate(SLOW) if name == prefix or name.startswith(f"{prefix}/"))
    return next(slow, len(SLOW))


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    """Collect every file: one whose extra isn't installed is skipped, with the extra's name."""
    module: pytest.Module = Module.from_parent(parent, path=module_path)
    return module


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skip a test that fails because an extra isn't installed; where it is, nothing is hidden."""
    report = yield
    reason = missing(call.excinfo.value) if call.excinfo is not None else ""
    if report.failed and reason:
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1] or 0, f"Skipped: {reason}")
    return report


@pytest.fixture(scope="session", autouse=True)
def _no_keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Take away the developer's own servers, tracing and cache: nothing depends on them."""
    names = (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "OPENAI_API_BASE",
        "OPENAI_ORG_ID",
        "OPENAI_PROXY",
        "LANGSMITH_TRACING",
        "LANGCHAIN_TRACING_V2",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
    )
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.delenv(name, raising=False)
        patch.setenv("RAGWEAVE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module", autouse=True)
def _young_heap() -> None:
    """Keep what is imported by now out of the garbage collector's rounds: PyTorch's is a lot."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def socket_enabled_for_module() -> Iterator[None]:
    """Let a module-wide fixture talk to the loopback server that it starts."""
    import pytest_socket

    pytest_socket.enable_socket()
    yield  # what comes next is blocked as its marks say; to block here would hit a loopback test
