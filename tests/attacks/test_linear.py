"""Reading takes time linear in the text: no reply, passage, question or file hangs a server."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from attacks.nasty import Maker, makers
from attacks.parsers import REPLIES, ROWS, TEXTS, Parser, loader

_GROWTH = 6
"""Most times the work for four times the text: 4 is linear, 16 is quadratic."""
_FLOOR = 0.025
"""Seconds of CPU below which nothing is compared: what a busy machine's noise comes to."""

FOUND = {
    "extractive answer question": lambda n: "What " + "1 " * (n // 2),
    "extractive topic question": lambda n: "What " + "1 " * (n // 2),
    "extractive answer passage": lambda n: "1 " * (n // 2),
    "extractive analyse": lambda n: "what is " + "a" * n + "!x y z w v",
    "extractive answer title": lambda n: "x." * (n // 2),
    "markdown": lambda n: "# a" + " " * n + "b",
    "markdown heading": lambda n: "\r" * n,
    "judge draft_shape": lambda n: "\n" * n,
    "split_sentences": lambda n: "`" * n,
    "render_passages": lambda n: "<" + " " * n,
    "html": lambda n: "<b " * (n // 3),
    "html body": lambda n: "<!--" * (n // 4),
    "csv header": lambda n: "b,c," * (n // 4),
    "parse_self_ask": lambda n: "(" * n,
    "parse_react": lambda n: "\n" * n,
    "parse_ids": lambda n: "[" * n,
}
"""Texts that once took time that grew with their square."""


def _seconds(read: Parser, text: str) -> float:
    began = time.process_time()
    read(text)
    return time.process_time() - began


def _least(read: Parser, text: str, times: int) -> float:
    return min(_seconds(read, text) for _ in range(times))


def grows_linearly(read: Parser, make: Maker, length: int) -> bool:
    """Say whether four times the text takes at most six times the work."""
    short, long = make(length), make(4 * length)
    bound = _GROWTH * max(_least(read, short, 1), _FLOOR)
    return _least(read, long, 1) <= bound or (
        _least(read, long, 3) <= _GROWTH * max(_least(read, short, 3), _FLOOR)
    )


def _attack(name: str, folder: Path, seed: str, length: int, atoms: int, mixes: int) -> None:
    read: Callable[[str], object] = {**REPLIES, **TEXTS}.get(name) or loader(name, folder)
    known = [FOUND[name]] if name in FOUND else []
    for make in (*known, *makers(seed, atoms=atoms, mixes=mixes)):
        assert grows_linearly(read, make, length), f"{name} over {make(60)!r}…"


@pytest.mark.parametrize("name", [*REPLIES, *TEXTS, *ROWS])
def test_reading_is_linear(name: str, tmp_path: Path) -> None:
    _attack(name, tmp_path, seed=name, length=4_000, atoms=4, mixes=3)


@pytest.mark.attack
@pytest.mark.parametrize("name", [*REPLIES, *TEXTS, *ROWS])
def test_reading_is_linear_at_length(name: str, tmp_path: Path) -> None:
    _attack(name, tmp_path, seed=f"long {name}", length=12_000, atoms=40, mixes=20)


def test_the_measure_tells_a_quadratic_reader() -> None:
    def reads_again(text: str) -> int:
        return sum(len(text[at:].lstrip("x")) > 0 for at in range(len(text)))

    assert not grows_linearly(reads_again, lambda n: "a" * n * 4, 10_000)
