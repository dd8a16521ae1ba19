"""Files that are larger than they look: gzip that unpacks to gigabytes, titles of a megabyte."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from tests import command

from attacks.parsers import QUESTION
from attacks.test_hostile import SOME, HostileChat, method_graph
from ragweave.datasets.recorded import read_recordings
from ragweave.datasets.rows import rows_of
from ragweave.errors import RagweaveError
from ragweave.graphs import METHODS
from ragweave.tools import packed
from ragweave.tools.knowledge import KnowledgeBase, Settings
from ragweave.tools.knowledge.loaders import load
from ragweave.tools.knowledge.passages import UnreadableError
from ragweave.tools.neighbours import read_training

HEADS = {
    "row.jsonl.gz": b'{"question": "',
    "lines.jsonl.gz": b'{"question": "q", "answers": ["x"], "text": "a"}\n',
    "array.json.gz": b'[{"question": "',
    "table.csv.gz": b'question,text\n"',
    "text.txt.gz": b"",
    "page.html.gz": b"<p>",
}


def bomb(file: Path, head: bytes, size: int) -> Path:
    """Write a file that unpacks to `size` bytes: its head, then blanks or lines."""
    filler = b"\n" if head.endswith(b"\n") else b" "
    part = gzip.compress(filler * 2**22)
    with file.open("wb") as out:
        out.write(gzip.compress(head))
        for _ in range(size // 2**22):
            out.write(part)
    return file


def readers(file: Path) -> Iterator[Callable[[], object]]:
    yield lambda: list(rows_of(file))
    if "jsonl" in file.name:
        yield partial(read_training, file)
    if "row" in file.name:
        yield partial(read_recordings, file)
    if file.stat().st_size * 1000 > 2**26:  # smaller ones may unpack to 64 MiB
        yield lambda: list(load(file, file.read_bytes(), Settings(embedding=None)))


def explode(folder: Path, size: int) -> int:
    """Read bombs in every way; return how many trials there were."""
    count = 0
    for name, head in HEADS.items():
        file = bomb(folder / name, head, size)
        for read in readers(file):
            with pytest.raises((RagweaveError, UnreadableError)) as told:
                read()
            known = ("unpacks to more than 100 times", "field larger", "expected JSON lines")
            assert any(one in str(told.value) for one in known), f"{name}: {told.value}"
            assert "\n" not in str(told.value)
            count += 1
        file.unlink()
    return count


def test_a_file_that_unpacks_to_far_more_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trials: Callable[[int], None]
) -> None:
    monkeypatch.setattr(packed, "FREE", 2**20)
    trials(explode(tmp_path, 2**24) - 1)


@pytest.mark.attack
def test_files_of_gigabytes_are_not_read(tmp_path: Path, trials: Callable[[int], None]) -> None:
    began = time.monotonic()
    trials(explode(tmp_path, 2**32) - 1)
    assert time.monotonic() - began < 600


@pytest.mark.attack
def test_commands_tell_a_bomb_in_one_line(tmp_path: Path, trials: Callable[[int], None]) -> None:
    bomb(tmp_path / "qa.jsonl.gz", HEADS["row.jsonl.gz"], 2**32)
    evaluated = command.run(
        *("eval", "jsonl:qa.jsonl.gz", "--methods", "direct", "--out", "run"), cwd=tmp_path
    )
    labelled = command.run(
        *("label", "judge", "jsonl:qa.jsonl.gz", "--proxy", "extractive", "--out", "out.jsonl"),
        cwd=tmp_path,
    )
    for one in (evaluated, labelled):
        assert (one.returncode, one.stderr.count("\n")) == (2, 1), one.stderr
        assert "unpacks to more than 100 times" in one.stderr
    indexed = command.run(
        *("index", "qa.jsonl.gz", "--kb", "kb", "--embedding", "none"), cwd=tmp_path
    )
    assert "unpacks to more than 100 times" in indexed.stdout + indexed.stderr
    trials(2)


def test_text_that_is_packed_well_is_read(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl.gz"
    row = {"question": "When did the bridge open?", "needed": True}
    file.write_bytes(gzip.compress(b"".join(json.dumps(row).encode() + b"\n" for _ in range(9000))))
    assert len(list(rows_of(file))) == len(read_training(file)) == 9000


HUGE = "title " * 200_000


def test_a_huge_title_fills_neither_the_disk_nor_a_prompt(
    tmp_path: Path, trials: Callable[[int], None]
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    text = " ".join(f"The capital of Norland is Eastport, number {n}." for n in range(600))
    (docs / "a.md").write_text(f"# {HUGE}\n\n{text}")
    (docs / "b.html").write_text(f"<title>{HUGE}</title><p>{text}")
    row = {"text": text.replace("Nor", "Sud"), "title": HUGE, "abstract": HUGE, "year": 1932}
    (docs / "c.jsonl").write_text(json.dumps(row))
    with KnowledgeBase.create(tmp_path / "kb", settings=Settings(embedding=None)) as base:
        assert base.index_paths([docs]).added == 3
        assert len(base) > 30
        found = base.as_retriever(80, "bm25").invoke("capital of Norland and Sudland")
        assert max(len(str(one.metadata)) for one in found) < 1_000
        assert {one.metadata.get("year") for one in found} == {None, 1932}
    stored = sum(one.stat().st_size for one in (tmp_path / "kb").rglob("*") if one.is_file())
    assert stored < 2**23
    trials(2)


@pytest.mark.parametrize(
    "methods",
    [
        pytest.param(SOME, id="some"),
        pytest.param(tuple(METHODS), id="all", marks=pytest.mark.attack),
    ],
)
def test_a_huge_title_of_a_foreign_retriever_fills_no_prompt(
    methods: tuple[str, ...], tmp_path: Path, trials: Callable[[int], None]
) -> None:
    training = tmp_path / "asked.jsonl"
    rows = [{"question": QUESTION, "needed": True}, {"question": "Why?", "needed": False}]
    training.write_text("".join(json.dumps(row) + "\n" for row in rows))
    docs = [Document("It is Eastport.", id="a", metadata={"title": HUGE, "source": HUGE})]
    for method in methods:
        model = HostileChat(message=AIMessage("So the answer is Eastport"))
        method_graph(method, model, docs, training).invoke({"question": QUESTION})
        sizes = [sum(len(one.text) for one in seen.messages) for seen in model.seen]
        assert max(sizes) < 20_000, method
    trials(len(methods) - 1)
