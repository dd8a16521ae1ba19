"""Many callers at once, some of whom leave: nothing crashes, mixes, or leaks."""

from __future__ import annotations

import asyncio
import gc
import io
import logging
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")

from ragweave.errors import RagweaveError

TEXTS = [f"{i} the question and the answer stand in the passages {'x' * (i % 7)}" for i in range(9)]


def _resident() -> int:
    """Return the process's memory in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


class Caller:
    """Calls in every way, and notes what came out wrong."""

    def __init__(self, model, expected: dict[str, str], seed: int) -> None:
        self.model, self.expected, self.wrong = model, expected, []
        self.rng = random.Random(seed)

    def call(self) -> None:
        text = self.rng.choice(TEXTS)
        kind = self.rng.choices([self.leave, self.hurry, self.wait], [2, 1, 7])[0]
        kind(text)

    def leave(self, text: str) -> None:
        for _ in zip(range(self.rng.randint(0, 3)), self.model.stream(text), strict=False):
            pass

    def hurry(self, text: str) -> None:
        try:
            self.model.invoke(text, timeout=self.rng.random() / 50)
        except RagweaveError as error:
            if "longer than" not in str(error):
                self.wrong.append(str(error))

    def wait(self, text: str) -> None:
        got = self.model.invoke(text, timeout=120).content
        if got != self.expected[text]:
            self.wrong.append(f"{text!r}: {got!r}")


def storm(model, expected: dict[str, str], calls: int) -> list[str]:
    callers = [Caller(model, expected, seed) for seed in range(50)]
    threads = [
        threading.Thread(target=lambda one=one: [one.call() for _ in range(calls)])
        for one in callers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert not any(thread.is_alive() for thread in threads)
    return [fault for one in callers for fault in one.wrong]


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="needs /proc to see memory")
def test_fifty_threads_with_twenty_calls_each(make_chat) -> None:
    model = make_chat(n_parallel=16, max_tokens=8)
    expected = {text: model.invoke(text).content for text in TEXTS}
    assert storm(model, expected, 4) == []
    before = _resident()
    assert storm(model, expected, 20) == []
    assert _resident() - before < 24 << 20
    assert model.invoke(TEXTS[0]).content == expected[TEXTS[0]]


async def test_two_hundred_tasks_of_which_some_are_cancelled(make_chat) -> None:
    model = make_chat(n_parallel=8, max_tokens=8)
    expected = {text: (await model.ainvoke(text)).content for text in TEXTS}
    rng = random.Random(1)
    tasks = {asyncio.ensure_future(model.ainvoke(t)): t for t in TEXTS * 22}
    for task in rng.sample(list(tasks), 60):
        await asyncio.sleep(0.001)
        task.cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    for reply, text in zip(done, tasks.values(), strict=True):
        if not isinstance(reply, asyncio.CancelledError):
            assert reply.content == expected[text]


INTERRUPTED = """
import signal, sys, threading, time
from ragweave.llamacpp import LlamaCppChat
model = LlamaCppChat(path=sys.argv[1], n_threads=1, n_batch=16, n_ctx=2048, max_tokens=4)
model.invoke("warm")
before = model.engine.computed
def interrupt():
    while model.engine.computed == before:
        time.sleep(0.0005)
    signal.raise_signal(signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    model.invoke("the question and the answer " * 250, max_tokens=None)
except KeyboardInterrupt:
    print("interrupted")
print(len(model.invoke("after").content) > 0)
"""


def test_ctrl_c_during_a_prompt_leaves_the_engine_serving(tiny: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(tiny)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == ["interrupted", "True"], done.stderr
    assert done.returncode == 0
    assert signal.getsignal(signal.SIGINT) is not None


def test_a_process_ends_cleanly_with_a_reply_in_progress(tiny: Path) -> None:
    code = """
import sys
from ragweave.llamacpp import LlamaCppChat
model = LlamaCppChat(path=sys.argv[1], n_threads=1, max_tokens=None)
stream = model.stream("hello")
next(stream)
print("bye")
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tiny)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "bye\n", "")


def test_what_the_garbage_collector_frees_waits_for_no_lock_that_its_caller_holds(
    tiny: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from ragweave.llamacpp import LlamaCppChat

    caplog.set_level(logging.DEBUG, "ragweave.llamacpp")
    model = LlamaCppChat(path=str(tiny), n_threads=1, max_tokens=2)
    model.invoke("hello")
    (thread,) = [one for one in threading.enumerate() if one is model.engine._scheduler._thread]
    handler = logging.StreamHandler(io.StringIO())
    logging.getLogger("ragweave.llamacpp").addHandler(handler)
    try:
        handler.acquire()
        del model
        gc.collect()
        handler.release()
        thread.join(60)
        assert not thread.is_alive()
        assert "llama_context" in handler.stream.getvalue()
    finally:
        logging.getLogger("ragweave.llamacpp").removeHandler(handler)
