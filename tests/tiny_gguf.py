"""Writes small GGUF models for tests: a byte-level tokenizer, seeded random weights (architecture qwen2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
LAYERS, WIDTH, HEADS, KV_WIDTH, INNER, CONTEXT = 2, 64, 4, 32, 128, 2048


def byte_letters() -> list[str]:
    """Return the 256 letters that stand for bytes in GPT-2's byte-level BPE."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    letters = {b: chr(b) for b in shown} | {b: chr(256 + i) for i, b in enumerate(hidden)}
    return [letters[b] for b in range(256)]


TOKENS = [*byte_letters(), "Ġt", "he", *SPECIAL]


def weights(*, end_bias: float, close_bias: float) -> dict[str, np.ndarray[Any, Any]]:
    """Draw weights under their GGUF names.

    Args:
        end_bias: Added to the logit of `<|im_end|>`; -50 makes replies never end by themselves.
        close_bias: Added to the logits of `"` and `}`, so that random JSON comes to an end.
    """
    rng = np.random.default_rng(0)
    size = len(TOKENS)

    def draw(rows: int, columns: int) -> np.ndarray[Any, Any]:
        return rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(2.0 / np.sqrt(columns))

    tensors: dict[str, np.ndarray[Any, Any]] = {
        "token_embd.weight": rng.standard_normal((size, WIDTH), dtype=np.float32),
        "output_norm.weight": np.ones(WIDTH, np.float32),
        "output.weight": draw(size, WIDTH),
        "output.bias": np.zeros(size, np.float32),
    }
    tensors["output.bias"][TOKENS.index('"')] = tensors["output.bias"][TOKENS.index("}")] = close_bias
    tensors["output.bias"][-3:] = -50.0, -50.0, end_bias
    for n in range(LAYERS):
        tensors |= {
            f"blk.{n}.attn_norm.weight": np.ones(WIDTH, np.float32),
            f"blk.{n}.attn_q.weight": draw(WIDTH, WIDTH),
            f"blk.{n}.attn_k.weight": draw(KV_WIDTH, WIDTH),
            f"blk.{n}.attn_v.weight": draw(KV_WIDTH, WIDTH),
            f"blk.{n}.attn_q.bias": np.zeros(WIDTH, np.float32),
            f"blk.{n}.attn_k.bias": np.zeros(KV_WIDTH, np.float32),
            f"blk.{n}.attn_v.bias": np.zeros(KV_WIDTH, np.float32),
            f"blk.{n}.attn_output.weight": draw(WIDTH, WIDTH),
            f"blk.{n}.ffn_norm.weight": np.ones(WIDTH, np.float32),
            f"blk.{n}.ffn_gate.weight": draw(INNER, WIDTH),
            f"blk.{n}.ffn_up.weight": draw(INNER, WIDTH),
            f"blk.{n}.ffn_down.weight": draw(WIDTH, INNER),
        }
    return tensors


def write(
    path: Path,
    *,
    end_bias: float = 0.0,
    close_bias: float = 0.0,
    template: str | None = CHATML,
    pools: bool = False,
    file_tensors: int = 0,
) -> Path:
    """Write a GGUF file and return its path; files of so many tensors each if `file_tensors` is given."""
    import gguf

    writer = gguf.GGUFWriter(str(path), "qwen2", split_max_tensors=file_tensors)
    writer.add_name("tiny")
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_WIDTH * HEADS // WIDTH)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10_000.0)
    if pools:
        writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(TOKENS)
    kinds = gguf.TokenType
    writer.add_token_types([kinds.CONTROL if token in SPECIAL else kinds.NORMAL for token in TOKENS])
    writer.add_token_merges(["Ġ t", "h e"])
    writer.add_bos_token_id(TOKENS.index(SPECIAL[0]))
    writer.add_eos_token_id(TOKENS.index(SPECIAL[2]))
    writer.add_add_bos_token(False)
    if template is not None:
        writer.add_chat_template(template)
    for name, values in weights(end_bias=end_bias, close_bias=close_bias).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
