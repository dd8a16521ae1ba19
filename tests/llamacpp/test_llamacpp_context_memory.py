"""What keys, values and recurrent states take, read from the headers of real models."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ragweave.errors import UnusableModelError
from ragweave.llamacpp.binding import context_length, needed_memory
from ragweave.llamacpp.context_memory import attention_bytes, state_bytes
from ragweave.llamacpp.core import CoreSettings
from ragweave.llamacpp.gguf import GGUFFacts, read_gguf

Value = int | list[int] | list[bool] | str


def text(words: str) -> bytes:
    return struct.pack("<Q", len(words)) + words.encode()


def coded(value: Value) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    kind, code = (7, "?") if isinstance(value[0], bool) else (5, "i")
    return struct.pack("<IIQ", 9, kind, len(value)) + struct.pack(f"<{len(value)}{code}", *value)


def header(folder: Path, name: str, **numbers: Value) -> GGUFFacts:
    """Write a header of an architecture and read it; `_0` in a key stands for a dot."""
    told = {f"{name}.{key.replace('_0', '.')}": value for key, value in numbers.items()}
    pairs: dict[str, Value] = {"general.architecture": name, **told}
    path = folder / "model.gguf"
    path.write_bytes(
        b"GGUF"
        + struct.pack("<IQQ", 3, 0, len(pairs))
        + b"".join(text(key) + coded(value) for key, value in pairs.items())
        + b"\0" * 64
    )
    return read_gguf(path)


def at(layers: int, heads: int, *where: int) -> list[int]:
    """Return a number of heads for each layer: `heads` at some of them, 0 elsewhere."""
    return [heads if layer in where else 0 for layer in range(layers)]


def sizes(facts: GGUFFacts) -> tuple[int | None, int]:
    return attention_bytes(facts), state_bytes(facts)


def granite(folder: Path) -> GGUFFacts:
    return header(
        folder,
        "granitehybrid",
        block_count=40,
        context_length=131_072,
        embedding_length=1536,
        attention_0head_count=12,
        attention_0head_count_kv=at(40, 4, 5, 15, 25, 35),
        ssm_0conv_kernel=4,
        ssm_0state_size=128,
        ssm_0group_count=1,
        ssm_0inner_size=3072,
        ssm_0time_step_rank=48,
    )


def test_granite_4_h_tiny_attends_in_four_layers_of_forty(tmp_path: Path) -> None:
    state = 36 * 4 * (3 * (3072 + 2 * 128) + 128 * 3072)
    assert sizes(granite(tmp_path)) == (4 * 4 * 2 * 128 * 2, state)
    assert state == 58_060_800


def test_latent_attention_keeps_no_values(tmp_path: Path) -> None:
    facts = header(
        tmp_path,
        "deepseek2",
        block_count=27,
        embedding_length=2048,
        attention_0head_count=16,
        attention_0head_count_kv=1,
        attention_0key_length=576,
        attention_0value_length=512,
        attention_0key_length_mla=192,
        attention_0value_length_mla=128,
    )
    assert sizes(facts) == (27 * 576 * 2, 0)


def test_lfm2_holds_the_past_of_its_convolutions(tmp_path: Path) -> None:
    facts = header(
        tmp_path,
        "lfm2",
        block_count=16,
        embedding_length=2048,
        attention_0head_count=32,
        attention_0head_count_kv=at(16, 8, 2, 5, 8, 10, 12, 14),
        shortconv_0l_cache=3,
    )
    assert sizes(facts) == (6 * 8 * 2 * 64 * 2, 10 * 4 * 2048 * 2)


QWEN = {
    "embedding_length": 2048,
    "attention_0head_count": 16,
    "attention_0head_count_kv": 2,
    "attention_0key_length": 256,
    "attention_0value_length": 256,
    "ssm_0conv_kernel": 4,
    "ssm_0state_size": 128,
    "ssm_0group_count": 16,
    "ssm_0time_step_rank": 32,
    "ssm_0inner_size": 4096,
}


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("qwen3next", {"block_count": 48}),
        ("qwen35moe", {"block_count": 48, "full_attention_interval": 4}),
        ("qwen35", {"block_count": 49, "nextn_predict_layers": 1}),
        (
            "qwen35",
            {"block_count": 48, "attention_0recurrent_layers": [True, True, True, False] * 12},
        ),
    ],
)
def test_qwen_attends_in_every_fourth_layer(
    tmp_path: Path, name: str, more: dict[str, Value]
) -> None:
    facts = header(tmp_path, name, **QWEN, **more)
    state = 4 * (3 * (4096 + 2 * 16 * 128) + 128 * 4096)
    assert sizes(facts) == (12 * 2 * 512 * 2, 36 * state)


def test_mamba_and_rwkv_have_no_attention(tmp_path: Path) -> None:
    mamba = {"ssm_0conv_kernel": 4, "ssm_0inner_size": 1536, "ssm_0state_size": 16}
    facts = header(
        tmp_path, "mamba", block_count=24, embedding_length=768, attention_0head_count=0, **mamba
    )
    assert sizes(facts) == (0, 24 * 4 * (3 * 1536 + 16 * 1536))
    facts = header(tmp_path, "rwkv7", block_count=12, embedding_length=768, wkv_0head_size=64)
    assert sizes(facts) == (0, 12 * 4 * 768 * (64 + 2))


def test_falcon_h1_attends_in_every_layer_that_has_a_state(tmp_path: Path) -> None:
    facts = header(
        tmp_path,
        "falcon-h1",
        block_count=36,
        embedding_length=1024,
        attention_0head_count=8,
        attention_0head_count_kv=2,
        attention_0key_length=64,
        attention_0value_length=64,
        ssm_0conv_kernel=4,
        ssm_0state_size=128,
        ssm_0group_count=1,
        ssm_0inner_size=1536,
    )
    state = 4 * (3 * (1536 + 2 * 128) + 128 * 1536)
    assert sizes(facts) == (36 * 2 * 128 * 2, 36 * state)


def test_nemotron_h_has_layers_that_neither_attend_nor_remember(tmp_path: Path) -> None:
    facts = header(
        tmp_path,
        "nemotron_h",
        block_count=6,
        embedding_length=4480,
        attention_0head_count=40,
        attention_0head_count_kv=[0, 0, 0, 8, 0, 0],
        attention_0key_length=128,
        attention_0value_length=128,
        feed_forward_length=[0, 15_680, 0, 0, 15_680, 15_680],
        ssm_0conv_kernel=4,
        ssm_0state_size=128,
        ssm_0group_count=8,
        ssm_0inner_size=10_240,
    )
    state = 4 * (3 * (10_240 + 2 * 8 * 128) + 128 * 10_240)
    assert sizes(facts) == (8 * 256 * 2, 2 * state)


def test_a_size_for_each_layer_counts_layer_by_layer(tmp_path: Path) -> None:
    """Gemma 4: sliding layers have more and narrower heads, the last ones share what others hold."""
    facts = header(
        tmp_path,
        "gemma4",
        block_count=8,
        embedding_length=2816,
        attention_0head_count=16,
        attention_0head_count_kv=[8, 8, 8, 2, 8, 8, 8, 2],
        attention_0key_length=512,
        attention_0value_length=512,
        attention_0key_length_swa=256,
        attention_0value_length_swa=256,
        attention_0sliding_window_pattern=[True, True, True, False] * 2,
        attention_0shared_kv_layers=4,
    )
    assert sizes(facts) == (2 * (3 * 8 * 512 + 2 * 1024), 0)


def test_states_take_memory_for_each_sequence_and_so_there_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hybrid, settings = granite(tmp_path), CoreSettings(n_parallel=8)
    assert settings.sequences(hybrid) == 8
    taken = needed_memory(hybrid, 4096, 8) - needed_memory(hybrid, 0, 0)
    assert taken == 8 * state_bytes(hybrid) + 4096 * (attention_bytes(hybrid) or 0)
    free = needed_memory(hybrid, 4096, 8)
    monkeypatch.setattr("ragweave.llamacpp.binding.free_memory", lambda: free)
    assert context_length(hybrid, 4096, 512, 8, in_memory=True) == 4096
    with pytest.raises(UnusableModelError, match="lower n_parallel"):
        context_length(hybrid, 4096, 512, 9, in_memory=True)


def test_sequences_that_share_a_beginning_are_many(tmp_path: Path) -> None:
    facts = header(tmp_path, "llama", block_count=2, embedding_length=64, attention_0head_count=4)
    settings = (CoreSettings(), CoreSettings(n_parallel=16), CoreSettings(n_parallel=1, n_batch=4))
    assert [one.sequences(facts) for one in settings] == [32, 64, 4]


def test_llama_cpp_opens_what_is_estimated(tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="writing a test model needs the gguf package")
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    import tiny_gguf
    from ragweave.llamacpp.binding import log
    from ragweave.llamacpp.core import Core

    facts = read_gguf(tiny_gguf.write_mamba(tmp_path / "mamba.gguf"))
    mark = log().mark()
    core = Core(facts, CoreSettings(n_ctx=512, n_parallel=5, n_threads=1))
    said = log().find("RS buffer size", mark) or ""
    core.close()
    mebibytes = float(said.rpartition("=")[2].split()[0])
    assert core.n_sequences == 5
    assert mebibytes == pytest.approx(5 * state_bytes(facts) / (1 << 20), abs=0.01)
