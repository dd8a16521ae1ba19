"""What a kill, a second writer, readers in between and damage do to the store."""

from __future__ import annotations

import gc
import os
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from langchain_core.documents import Document

from ragweave.errors import KnowledgeBaseError, MissingExtraError
from ragweave.names import RetrieverName
from ragweave.testing.store import WordEmbeddings
from ragweave.tools.knowledge import KnowledgeBase
from ragweave.tools.knowledge.store import FILE

FILES = 300


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """Return a folder that other users may read, unlike `tmp_path`."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def writing(folder: Path, docs: Path, work: str, slow: float = 0.0) -> subprocess.Popen[bytes]:
    """Start a process that does something to `kb`; it says when it begins."""
    code = f"""
        import time
        from langchain_core.documents import Document
        from ragweave.testing.store import WordEmbeddings
        from ragweave.tools.knowledge import KnowledgeBase
        model = WordEmbeddings()
        model.before = lambda: time.sleep({slow})
        kb = KnowledgeBase.open({str(folder)!r}, embeddings=model)
        docs = {str(docs)!r}
        print("started", flush=True)
        {work}
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    child.stdout.close()
    return child


def write(docs: Path, version: int) -> None:
    docs.mkdir(exist_ok=True)
    for number in range(FILES):
        (docs / f"{number}.txt").write_text(f"version {version} of note {number}")


def versions(folder: Path) -> dict[str, int]:
    """Return how many passages there are of each version, read past our own code."""
    db = sqlite3.connect(folder / FILE)
    counts: dict[str, int] = {}
    for (text,) in db.execute("SELECT text FROM passages"):
        name = text.partition(" of ")[0]
        counts[name] = counts.get(name, 0) + 1
    db.close()
    return counts


def kill(tmp_path: Path, kills: int, seed: int) -> None:
    """Kill a writer at random moments of index, add and delete; each leaves one state."""
    docs, folder = tmp_path / "docs", tmp_path / "kb"
    write(docs, 0)
    works = (
        "kb.index_paths([docs])",
        'kb.add([Document(f"added of note {n}") for n in range(50)], "extra")',
        'kb.delete(source="extra")',
    )
    with KnowledgeBase.create(folder, embeddings=WordEmbeddings()) as kb:
        kb.index_paths([docs])
    clock = random.Random(seed)
    for number in range(1, kills + 1):
        before = versions(folder)
        work = works[number % 3]
        if number % 3 == 0:
            write(docs, number)
        child = writing(folder, docs, work, slow=0.05)
        time.sleep(clock.uniform(0.0, 0.5))
        child.send_signal(signal.SIGKILL)
        child.wait()
        after = versions(folder)
        added = {"added": 50} if number % 3 == 1 else {}
        new = {
            0: {f"version {number}": FILES, **{k: v for k, v in before.items() if k == "added"}},
            1: before | added,
            2: {k: v for k, v in before.items() if k != "added"},
        }[number % 3]
        assert after in (before, new), f"{work}: {before} became {after}"
        with KnowledgeBase.open(folder, embeddings=WordEmbeddings()) as kb:
            assert kb.check() == []
            for mode in ("bm25", "graph"):
                assert len(kb.as_retriever(5, mode).invoke("note 7")) == 5
    with KnowledgeBase.open(folder, embeddings=WordEmbeddings()) as kb:
        kb.index_paths([docs])
        kb.add(Document("One more."))
        assert len([*folder.glob("index-*")]) <= 2
    db = sqlite3.connect(folder / FILE)
    sql = "SELECT count(*) FROM vectors WHERE content NOT IN (SELECT content FROM passages)"
    assert db.execute(sql).fetchone()[0] == 0
    db.close()


def test_a_kill_leaves_the_old_state_or_the_new_one(tmp_path: Path) -> None:
    kill(tmp_path, kills=3, seed=1)


def test_embeddings_survive_a_kill(tmp_path: Path) -> None:
    docs, folder = tmp_path / "docs", tmp_path / "kb"
    docs.mkdir()
    for number in range(1_000):
        (docs / f"{number}.txt").write_text(f"note {number}")
    model = WordEmbeddings()
    kb = KnowledgeBase.create(folder, embeddings=model)
    child = writing(folder, docs, "kb.index_paths([docs])", slow=0.4)
    db = sqlite3.connect(folder / FILE)
    while child.poll() is None:
        if db.execute("SELECT count(*) FROM vectors").fetchone()[0] >= 256:
            child.kill()
        time.sleep(0.02)
    child.wait()
    db.close()
    assert len(kb) == 0
    report = kb.index_paths([docs])
    assert report.added == 1_000
    assert len(model.embedded) == report.embedded <= 1_000 - 256


def test_embeddings_of_a_killed_write_go_with_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "kb"
    kb = KnowledgeBase.create(folder, embeddings=WordEmbeddings())
    kb.add(Document("Stays."), "first")
    child = writing(folder, tmp_path, 'kb.add([Document(f"note {n}") for n in range(1_000)])', slow=0.4)
    db = sqlite3.connect(folder / FILE)
    while child.poll() is None:
        if db.execute("SELECT count(*) FROM vectors").fetchone()[0] > 256:
            child.kill()
        time.sleep(0.02)
    child.wait()
    assert db.execute("SELECT count(*) FROM vectors").fetchone()[0] > 256
    kb.add(Document("Another."), "second")
    assert db.execute("SELECT count(*) FROM vectors").fetchone()[0] == 2
    db.close()
    assert kb.check() == []


def test_a_second_writer_is_refused(tmp_path: Path, docs: Path) -> None:
    model = WordEmbeddings()
    kb = KnowledgeBase.create(tmp_path / "kb", embeddings=model)
    errors: list[str] = []

    def meddle() -> None:
        second = KnowledgeBase.open(tmp_path / "kb", embeddings=WordEmbeddings())
        second.wait = 0
        with pytest.raises(KnowledgeBaseError) as error:
            second.add(Document("Two."))
        errors.append(str(error.value))
        assert len(kb) == 0

    model.before = meddle
    assert kb.index_paths([docs]).added == 2
    assert errors and "another process has been writing" in errors[0]
    model.before = lambda: None
    kb.add(Document("Two."))


def test_a_second_writer_waits(tmp_path: Path, docs: Path) -> None:
    model = WordEmbeddings()
    kb = KnowledgeBase.create(tmp_path / "kb", embeddings=model)
    second = KnowledgeBase.open(tmp_path / "kb", embeddings=WordEmbeddings())
    threads: list[threading.Thread] = []

    def meddle() -> None:
        if not threads:
            threads.append(threading.Thread(target=second.add, args=(Document("Two."),)))
            threads[0].start()

    model.before = meddle
    kb.index_paths([docs])
    threads[0].join()
    assert {source.kind for source in kb.sources()} == {"file", "added"}


def test_a_copy_of_a_folder_in_use_is_a_knowledge_base(tmp_path: Path, docs: Path) -> None:
    model = WordEmbeddings()
    kb = KnowledgeBase.create(tmp_path / "kb", embeddings=model)
    kb.index_paths([docs])
    query = kb.as_retriever(k=3)
    before = [doc.page_content for doc in query.invoke("river")]
    model.before = lambda: pytest.fail("a copy embeds nothing")
    kb.backup(tmp_path / "copies" / "kb")
    with pytest.raises(KnowledgeBaseError, match="exists"):
        kb.backup(tmp_path / "copies" / "kb")
    model.before = lambda: None
    kb.add(Document("River river river."))
    assert query.invoke("river")[0].page_content == "River river river."
    copy = KnowledgeBase.open(tmp_path / "copies" / "kb", embeddings=WordEmbeddings())
    assert copy.check() == []
    assert [doc.page_content for doc in copy.as_retriever(k=3).invoke("river")] == before
    copy.add(Document("Another river."))
    assert copy.check() == []


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can mount a small disk")
def test_on_a_full_disk_sources_can_be_deleted(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this system forbids mounting")
    try:
        with KnowledgeBase.create(disk / "kb", settings={"embedding": None}) as kb:
            words = [f"word{number}" for number in range(500)]
            docs = [Document(" ".join(random.sample(words, 90)), id=str(number)) for number in range(1_000)]
            kb.add([*docs, Document("The ferry sails at nine.")], source="one")
            kb.add(Document("The ferry sails at ten."), source="two")
            filler = disk / "filler"
            with pytest.raises(OSError, match="No space"), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
            with pytest.raises(KnowledgeBaseError, match="cannot be written"):
                kb.add(docs[::-1], source="three")
            assert kb.delete(source="two") == 1
            assert kb.check() == []
            assert kb.as_retriever(k=1).invoke("ferry")[0].page_content.endswith("nine.")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_readers_see_one_snapshot(tmp_path: Path) -> None:
    folder = tmp_path / "kb"
    kb = KnowledgeBase.create(folder, embeddings=WordEmbeddings())
    kb.add([Document(f"note {n} version 0", id=str(n)) for n in range(50)], "notes")
    mixed, stop, asked = [], threading.Event(), [0]

    def read() -> None:
        own = KnowledgeBase.open(folder, embeddings=WordEmbeddings())
        retriever = own.as_retriever(50, "graph")
        while not stop.is_set():
            versions = {doc.page_content.split()[-1] for doc in retriever.invoke("note version")}
            asked[0] += 1
            if len(versions) != 1:
                mixed.append(versions)
        own.close()

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(4)]
        for version in range(1, 9):
            kb.add([Document(f"note {n} version {version}", id=str(n)) for n in range(50)], "notes")
        stop.set()
        for reader in readers:
            reader.result()
    assert not mixed and asked[0] > 20 and len(kb) == 50


def test_a_write_that_fails_changes_nothing(tmp_path: Path) -> None:
    model = WordEmbeddings()
    kb = KnowledgeBase.create(tmp_path / "kb", embeddings=model)
    kb.add(Document("One."))
    before = [*kb.path.glob("index-*")]

    def refuse() -> None:
        raise ConnectionError("refused")

    model.before = refuse
    with pytest.raises(KnowledgeBaseError, match="the embedding model failed: refused"):
        kb.add(Document("Two."))
    assert (len(kb), [*kb.path.glob("index-*")], kb.check()) == (1, before, [])


def test_a_forked_process_opens_connections_of_its_own(tmp_path: Path) -> None:
    kb = KnowledgeBase.create(tmp_path / "kb")
    kb.add(Document("One."))
    code = f"""
        import os, sys, warnings
        from ragweave.tools.knowledge import KnowledgeBase
        kb = KnowledgeBase.open({str(tmp_path / "kb")!r})
        assert len(kb) == 1
        child = os.fork()
        if child == 0:
            os._exit(0 if len(kb) == 1 and kb.as_retriever(mode="bm25").invoke("one") else 1)
        assert os.waitpid(child, 0)[1] == 0 and len(kb) == 1
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_other_files_in_the_folder_stay(tmp_path: Path) -> None:
    kb = KnowledgeBase.create(tmp_path / "kb")
    backup = tmp_path / "kb" / f"{FILE}.bak"
    backup.write_text("mine")
    kb.add(Document("One."))
    assert backup.exists()
    with pytest.raises(KnowledgeBaseError, match="already a knowledge base"):
        KnowledgeBase.create(tmp_path / "kb")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "index-cards").mkdir()  # named as our indexes are, which a write deletes
    with pytest.raises(KnowledgeBaseError, match="not empty"):
        KnowledgeBase.create(tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["index-cards"]


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(KnowledgeBaseError, match=f"{FILE}: "):
        KnowledgeBase.open(tmp_path)
    gc.collect()  # what a half-made connection raises would be a warning


def test_damage_is_named_and_a_rebuild_repairs_the_index(tmp_path: Path, docs: Path) -> None:
    folder = tmp_path / "kb"
    kb = KnowledgeBase.create(folder, embeddings=WordEmbeddings())
    kb.index_paths([docs])
    kb.close()
    for name in ("bm25-scores", "vectors"):
        (path,) = folder.glob(f"index-*/{name}")
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2])
        kb = KnowledgeBase.open(folder, embeddings=WordEmbeddings())
        assert "cannot be opened" in kb.check()[0]
        with pytest.raises(KnowledgeBaseError, match="--repair"):
            kb.as_retriever().invoke("ferry")
        kb.rebuild()
        assert kb.check() == [] and kb.as_retriever().invoke("ferry")
        kb.close()
    next(folder.glob("index-*/vectors")).unlink()
    kb = KnowledgeBase.open(folder, embeddings=WordEmbeddings())
    with pytest.raises(KnowledgeBaseError, match="vectors"):
        kb.as_retriever(mode="dense").invoke("ferry")
    kb.add(Document("One."))
    assert kb.as_retriever(mode="dense").invoke("ferry")
    kb.close()
    (folder / FILE).write_bytes(b"no database" * 100)
    with pytest.raises(KnowledgeBaseError, match=FILE):
        KnowledgeBase.open(folder)


@pytest.mark.parametrize("file", ["rows", "bm25-passages", "bm25-lengths"])
def test_a_damaged_file_of_the_index_is_found_by_check_and_by_queries(tmp_path: Path, file: str) -> None:
    with KnowledgeBase.create(tmp_path / "kb", settings={"embedding": None}) as kb:
        kb.add([Document(f"number{at} of City{at}", id=f"d{at}") for at in range(50)], source="s")
    (path,) = (tmp_path / "kb").glob(f"index-*/{file}")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert any(file in fault for fault in kb.check())
        with pytest.raises(KnowledgeBaseError, match=rf"{file}.*doctor --repair"):
            kb.as_retriever(k=1, mode="bm25").invoke("number7 City7")
        kb.rebuild()
        assert kb.check() == []
        assert kb.as_retriever(k=1, mode="bm25").invoke("number7 City7")[0].id == "d7"


def test_a_damaged_passage_is_found_and_read_again(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "ferry.txt").write_text("The ferry sails at nine.")
    with KnowledgeBase.create(tmp_path / "kb", settings={"embedding": None}) as kb:
        kb.index_paths(tmp_path / "docs")
        with closing(sqlite3.connect(tmp_path / "kb" / FILE)) as db, db:
            db.execute("UPDATE passages SET text = replace(text, 'nine', 'five')")
        (fault,) = kb.check()
        assert "ferry.txt is damaged" in fault
        with pytest.raises(KnowledgeBaseError, match=r"ferry\.txt is damaged.*doctor --repair"):
            kb.as_retriever(k=1).invoke("ferry")
        kb.rebuild()
        assert kb.check() == []
        kb.index_paths(tmp_path / "docs")
        assert [doc.page_content for doc in kb.passages()] == ["The ferry sails at nine."]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="needs another user, whom only root can become")
def test_a_reader_that_may_not_write_the_folder_sees_each_commit(shared_folder: Path) -> None:
    path = shared_folder / "kb"
    kb = KnowledgeBase.create(path, settings={"embedding": None})
    kb.add(Document("The ferry sails at nine."), source="plan")
    kb.close()
    for file in path.glob("*-*"):
        if file.is_file():
            file.unlink()  # a copy without the log
    asks, answers = os.pipe(), os.pipe()
    reader = os.fork()
    if reader == 0:
        os.setgid(65534)
        os.setuid(65534)
        kept = None
        while os.read(asks[0], 1) == b"?":
            try:
                kept = kept or KnowledgeBase.open(path)
                seen = [
                    opened.as_retriever(k=1, mode="bm25").invoke("ferry")[0].page_content
                    for opened in (kept, KnowledgeBase.open(path))
                ]
                with pytest.raises(KnowledgeBaseError, match="cannot be written"):
                    kept.add(Document("The ferry sinks."))
            except Exception as error:  # noqa: BLE001 - told to the test
                seen = [repr(error)]
            os.write(answers[1], "|".join(seen).encode())
        os._exit(0)

    def read() -> set[str]:
        os.write(asks[1], b"?")
        return set(os.read(answers[0], 10_000).decode().split("|"))

    try:
        assert read() == {"The ferry sails at nine."}
        for hour in ("ten", "eleven", "noon"):
            text = f"The ferry sails at {hour}."
            kb.index_documents([Document(text)], source="plan")
            assert read() == {text}
            kb.close()
            assert read() == {text}
        kb.index_documents([Document(f"Entry {number} of the log. " * 40) for number in range(2_000)], source="log")
        assert read() == {text}
    finally:
        os.write(asks[1], b".")
        os.waitpid(reader, 0)


def test_a_strangers_folder_names_its_model_before_it_is_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    KnowledgeBase.create(tmp_path / "kb", settings={"embedding": None}).close()
    with closing(sqlite3.connect(tmp_path / "kb" / FILE)) as db:
        db.execute("UPDATE meta SET value = json_set(value, '$.embedding', './model') WHERE key = 'settings'")
        db.commit()
    with suppress(MissingExtraError):
        KnowledgeBase.open(tmp_path / "kb").close()
    assert "uses the embedding model ./model" in caplog.text


def test_small_writes_leave_the_large_part_of_the_index_as_it_is(tmp_path: Path) -> None:
    def folders() -> set[str]:
        return {path.name for path in (tmp_path / "kb").glob("index-*")}

    def found(base: KnowledgeBase, mode: RetrieverName) -> list[set[str]]:
        retriever = base.as_retriever(500, mode)
        return [{doc.page_content for doc in retriever.invoke(query)} for query in ("number 7", "late 3", "Alden")]

    texts = {f"d{number}": f"number {number} at Alden" for number in range(400)}
    with KnowledgeBase.create(tmp_path / "kb", embeddings=WordEmbeddings()) as kb:
        kb.add([Document(text, id=name) for name, text in texts.items()], "all")
        (large,) = folders()
        for number in range(6):
            texts |= {f"late{number}": f"late {number} at Alden", f"d{number}": f"again {number} at Alden"}
            kb.add([Document(texts[name], id=name) for name in (f"late{number}", f"d{number}")], "all")
            for name in (f"d{number + 20}", *[f"late{number - 1}"] * (number % 2)):
                del texts[name]
                assert kb.delete(name) == 1
            assert large in folders() and len(folders()) == 2
            assert (kb.check(), len(kb)) == ([], len(texts))
        with KnowledgeBase.create(tmp_path / "other", embeddings=WordEmbeddings()) as fresh:
            fresh.add([Document(text, id=name) for name, text in texts.items()], "all")
            modes: tuple[RetrieverName, ...] = "bm25", "dense", "hybrid", "graph"
            for mode in modes:
                assert found(kb, mode) == found(fresh, mode), mode
        kb.add([Document(f"more {number}") for number in range(1001)], "more")
        assert large not in folders() and len(folders()) == 1
        kb.add(Document("one more"), "more")
        kb.backup(tmp_path / "copy")
        with KnowledgeBase.open(tmp_path / "copy", embeddings=WordEmbeddings()) as copy:
            assert (copy.check(), len(copy)) == ([], len(texts) + 1002)


def test_passages_rank_as_in_a_new_index_whatever_came_before_them(tmp_path: Path) -> None:
    rest = "and then they all walked home along the shore, past boats, nets, ropes, tar, gulls, sand, posts and a wall "
    with KnowledgeBase.create(tmp_path / "kb", settings={"embedding": None}) as kb:
        for text in ("harbour row", f"A text: {3 * rest}", f"The harbour bells rang that night, {3 * rest}"):
            kb.add(Document(text), text)
        assert kb.as_retriever(1, "bm25").invoke("harbour bells at night")[0].page_content.startswith("The")
    with KnowledgeBase.create(tmp_path / "other", settings={"embedding": None}) as kb:
        kb.add([Document(f"lake {at}") for at in range(15)], "lakes")
        kb.add([Document(f"{word} hut", id=word) for word in ("hill", "lake")], "huts")
        kb.add([Document(f"hill {at}") for at in range(9)], "hills")
        assert kb.as_retriever(1, "bm25").invoke("lake hill hut")[0].id == "hill"
        assert kb.delete(source="lakes") == 15
        assert kb.as_retriever(1, "bm25").invoke("lake hill hut")[0].id == "lake"
