"""The memory that a model may take, and the context that fits into it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.errors import ModelError
from ragweave.llamacpp.binding import (
    cache_bytes,
    context_length,
    free_memory,
    logits_memory,
    needed_memory,
)
from ragweave.llamacpp.gguf import GGUFFacts

FILES = "anon 700\ninactive_anon 1\ninactive_file 250\nactive_file 150\nfile_dirty 9\n"


@pytest.mark.parametrize(
    ("limit", "used", "stat", "free"),
    [
        ("1000", 900, None, 100),
        ("1000", 900, FILES, 500),
        ("1000", 900, FILES + "file_mapped 300\n", 200),
        ("1000", 900, FILES + "file_mapped 500\n", 100),
        ("1000", 300, FILES, 1000),
        ("1000", 1600, FILES, 0),
        ("9000000", 900, FILES, 4096 << 10),
        ("max", 900, FILES, 4096 << 10),
        (None, 900, FILES, 4096 << 10),
    ],
)
def test_what_is_cached_of_files_counts_as_free_in_a_container(
    tmp_path: Path, limit: str | None, used: int, stat: str | None, free: int
) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 9999 kB\nMemAvailable: 4096 kB\n")
    given = {"memory.max": limit, "memory.current": str(used), "memory.stat": stat}
    for name, text in given.items():
        if text is not None:
            (tmp_path / name).write_text(text)
    assert free_memory(tmp_path / "meminfo", tmp_path) == free


def test_the_memory_of_no_machine_is_unknown(tmp_path: Path) -> None:
    assert free_memory(tmp_path / "meminfo", tmp_path) is None


def facts_of(context: int | None = 32_768, *, file: int = 4 << 30) -> GGUFFacts:
    """Facts of a model whose cache takes 64 KiB a token."""
    numbers = {"block_count": 16, "embedding_length": 2048, "attention.head_count": 16}
    numbers |= {"attention.head_count_kv": 8}
    numbers |= {} if context is None else {"context_length": context}
    metadata = {"general.architecture": "x", **{f"x.{k}": v for k, v in numbers.items()}}
    return GGUFFacts(Path("x.gguf"), file, metadata, 1, vocabulary=150_000)


def opened(facts: GGUFFacts, free: int, requested: int | None = None) -> int | None:
    """Return the context that is opened where so much memory is free; None: the model is refused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ragweave.llamacpp.binding.free_memory", lambda: free)
        try:
            return context_length(facts, requested, 512, 32, in_memory=True)
        except ModelError as error:
            assert "or lower the n_ctx of another model that is loaded" in str(error)
            return None


@given(
    st.integers(0, 40 << 30),
    st.one_of(st.none(), st.integers(1, 200_000)),
    st.one_of(st.none(), st.integers(1, 200_000)),
)
def test_a_context_fits_and_one_not_asked_for_leaves_room_for_others(
    free: int, context: int | None, requested: int | None
) -> None:
    facts = facts_of(context)
    got, own = opened(facts, free, requested), context or 4096
    if requested is not None:
        assert got == (requested if needed_memory(facts, requested, 32) <= free else None)
    elif got is None:
        assert needed_memory(facts, min(own, 512), 32) > free
    else:
        assert got <= own
        left = free // 4 + logits_memory(facts, 512) if got > 4096 else 0
        assert needed_memory(facts, got, 32) <= free - left
        assert got >= min(own, 3840) or needed_memory(facts, got + 256, 32) > free
        assert got == own or got % 256 == 0
        assert got >= min(own, 512)


def test_a_second_model_fits_beside_one_with_a_context_of_its_own_choice() -> None:
    free = 16 << 30
    first = facts_of(1 << 20)
    taken = needed_memory(first, opened(first, free) or 0, 32) + logits_memory(first, 512)
    assert 11 << 30 < taken <= 12 << 30
    second = facts_of(file=2 << 30)
    assert (opened(second, free - taken) or 0) >= 4096


def test_the_logits_of_a_batch_take_memory() -> None:
    assert logits_memory(facts_of(), 512) == 512 * 150_000 * 4


@pytest.mark.parametrize("requested", [None, 2048])
def test_a_model_is_not_refused_for_the_logits_of_a_batch(requested: int | None) -> None:
    """Most calls want few logits, and pages that nothing was written to take no memory."""
    facts = facts_of(2048, file=1 << 30)
    assert opened(facts, needed_memory(facts, 2048, 32), requested) == 2048


def test_main_memory_for_prefixes_is_part_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_bytes(3, in_memory=False) == 3 << 20
    for free, expected in ((8 << 30, 1 << 30), (64 << 30, 2 << 30), (0, 0), (None, 1 << 29)):
        monkeypatch.setattr("ragweave.llamacpp.binding.free_memory", lambda free=free: free)
        assert cache_bytes(None, in_memory=True) == expected
        assert cache_bytes(None, in_memory=False) == 0
