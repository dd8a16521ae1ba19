"""The llama.cpp engine under attack by many callers, with a real small model.

The short forms stand in tests/llamacpp: damaged and hostile files (files), templates that try to
leave their sandbox or never end (template), many callers of whom some leave, closing and
interrupts (stress, chat), prompts and replies beyond the context (smollm2).
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")

from ragweave.errors import MissingExtraError, RagweaveError
from ragweave.llamacpp.provider import smollm2_file
from ragweave.tools.models import chat_model

try:
    smollm2_file()
except MissingExtraError as missing:
    pytest.skip(str(missing), allow_module_level=True)

SPEC = "smollm2?n_ctx=512&n_parallel=4&n_threads=2&max_tokens=12&flash_attention=false"
QUESTIONS = [f"Name a fruit that begins with the letter {letter}." for letter in "abcdefgh"]


@pytest.fixture
def model() -> Iterator[Any]:
    made: Any = chat_model(SPEC)
    yield made
    made.close()


def storm(model: Any, calls: int, seed: int) -> list[tuple[str, str]]:
    """Call in every way, good and bad; return letter and reply of the calls that must give one."""
    rng, kept = random.Random(seed), list[tuple[str, str]]()
    for _ in range(calls):
        kind = rng.choice(("ask", "ask", "leave", "hurry", "long", "noise"))
        question = rng.choice(QUESTIONS)
        try:
            if kind == "ask":
                kept.append((question[-2], model.invoke(question, timeout=300).content))
            elif kind == "leave":
                for _ in zip(range(2), model.stream(question), strict=False):
                    pass
            elif kind == "hurry":
                model.invoke(question, timeout=0.01)
            elif kind == "long":
                model.invoke("on and on " * 2000)
            else:
                model.invoke("".join(chr(rng.randrange(1, 0xD7FF)) for _ in range(60)))
        except RagweaveError as error:
            assert kind != "ask", error
            assert "\n" not in str(error)
    return kept


def attack(model: Any, threads: int, calls: int) -> None:
    with ThreadPoolExecutor(threads) as pool:
        found = pool.map(lambda seed: storm(model, calls, seed), range(threads))
        replies = [reply for kept in found for reply in kept]
    # Which of two nearly tied tokens is written depends on the batch; whose letter it is may not.
    assert replies
    for letter, reply in replies:
        assert f'letter "{letter}"' in reply.lower()
    assert not model.engine._scheduler.decoder.running


@pytest.mark.attack
def test_sixteen_threads_of_good_and_bad_callers(model: Any, trials: Callable[[int], None]) -> None:
    attack(model, threads=16, calls=6)
    trials(95)


@pytest.mark.attack
def test_closing_while_it_writes(trials: Callable[[int], None]) -> None:
    for number in range(10):
        made: Any = chat_model(SPEC)
        made.invoke("hello", max_tokens=1)
        timer = threading.Timer(0.02 * number, made.close)
        timer.start()
        try:
            made.invoke("Tell me a long story.", max_tokens=200)
        except RagweaveError as error:
            assert "\n" not in str(error)
        timer.join()
        assert made.invoke("hello", max_tokens=1).usage_metadata["output_tokens"] == 1
        made.close()
    trials(9)
