"""Damaged files: one clear line each, and no traceback."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from ragweave.cli.record import read_run
from ragweave.errors import RagweaveError
from ragweave.tools.knowledge import KnowledgeBase, Settings
from ragweave.tools.knowledge.store import FILE
from ragweave.tools.neighbours import read_training
from ragweave.tools.trained.card import CARD, Card, read_card, write_card

RUN = '{"method":"m","question":"q","trace":[],"notes":[],"graph":{"nodes":[],"edges":[]}}'


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Cut, overwrite or replace some of `data`."""
    at = rng.randrange(len(data) + 1)
    noise = rng.randbytes(rng.choice((1, 8, 200)))
    return rng.choice((data[:at], data[:at] + noise + data[at + len(noise) :], noise, b"", b"null", b"[" * 50_000))


def told(act: Callable[[], object]) -> None:
    """Let an act succeed or fail with one line that is written for people."""
    try:
        act()
    except RagweaveError as error:
        assert str(error).strip()
        assert "\n" not in str(error)


def attack(folder: Path, rounds: int) -> None:
    rng = random.Random(rounds)
    (folder / "docs").mkdir()
    (folder / "docs" / "a.txt").write_text("about salt and pepper")
    with KnowledgeBase.create(folder / "kb", settings=Settings(embedding=None)) as base:
        base.index_paths([folder / "docs"])
    index = [folder / "kb" / FILE, *(folder / "kb").glob("index-*/*")]
    run, labels = folder / "run.json", folder / "labels.jsonl"
    card = folder / "trained"
    card.mkdir()
    run.write_text(RUN)
    labels.write_text('{"question": "q", "needed": true}\n')
    write_card(card, Card(role="judge", kind="linear", base="minilm", threshold=0.5))

    def ask() -> None:
        with KnowledgeBase.open(folder / "kb") as base:
            base.as_retriever(2, "bm25").invoke("salt")
            base.check()

    for _ in range(rounds):
        for file in index:
            data = file.read_bytes()
            file.write_bytes(damaged(data, rng))
            told(ask)
            file.write_bytes(data)
        for file, read in (
            (run, lambda: read_run(run)),
            (labels, lambda: read_training(labels)),
            (card / CARD, lambda: read_card(card)),
        ):
            data = file.read_bytes()
            file.write_bytes(damaged(data, rng))
            told(read)
            file.write_bytes(data)
    ask()


def test_damaged_files_are_told(tmp_path: Path) -> None:
    attack(tmp_path, rounds=1)


@pytest.mark.attack
def test_many_damaged_files_are_told(tmp_path: Path, trials: Callable[[int], None]) -> None:
    attack(tmp_path, rounds=100)
    trials(900)
