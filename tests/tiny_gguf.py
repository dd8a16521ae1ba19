"""Writes small GGUF models for tests and benchmarks: real tokenizer, seeded random weights.

The tokenizer is byte-level BPE with merges learned from a few sentences, so that any text goes in
and comes out. The same weights can be had as a transformers model, to compare the two engines.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEXT = (
    "the question and the answer stand in the passages of the document and the model reads them "
    "one by one to find what is relevant to the question that the user asks in the text "
    "Answer the question with the passages below. If the answer is not there, say Unknown. "
) * 3
NUMBERS = Literal["f32", "f16", "q8_0"]


@dataclass(frozen=True)
class Shape:
    """Sizes of a model; the head's width is `embedding / heads`."""

    layers: int = 2
    embedding: int = 64
    heads: int = 4
    kv_heads: int = 2
    feed_forward: int = 128
    context: int = 2048
    vocabulary: int | None = None
    """Padded with unused tokens up to this many; None leaves the tokenizer's own size."""


@cache
def merges(count: int = 120) -> tuple[tuple[str, str], ...]:
    """Learn byte-pair merges from `TEXT`, most frequent pair first."""
    words = Counter(f"Ġ{word}" for word in TEXT.split())
    split = {word: tuple(word) for word in words}
    learned: list[tuple[str, str]] = []
    while len(learned) < count:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, parts in split.items():
            for pair in pairwise(parts):
                pairs[pair] += words[word]
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        learned.append(best)
        split = {word: _merged(parts, best) for word, parts in split.items()}
    return tuple(learned)


def _merged(parts: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    out: list[str] = []
    for part in parts:
        if out and (out[-1], part) == pair:
            out[-1] += part
        else:
            out.append(part)
    return tuple(out)


def byte_letters() -> list[str]:
    """Return the 256 letters that stand for bytes in GPT-2's byte-level BPE."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    letters = {b: chr(b) for b in shown} | {b: chr(256 + i) for i, b in enumerate(hidden)}
    return [letters[b] for b in range(256)]


def vocabulary(size: int | None = None) -> list[str]:
    """Return the token texts: bytes, merges, special tokens, padding."""
    merged = ("".join(pair) for pair in merges())
    tokens = list(dict.fromkeys([*byte_letters(), *merged, *SPECIAL]))
    if size is not None:
        tokens += [f"[unused{i}]" for i in range(size - len(tokens))]
    return tokens


def weights(
    shape: Shape,
    seed: int = 0,
    *,
    end_bias: float = 0.0,
    close_bias: float = 0.0,
    high_bias: float = 0.0,
) -> dict[str, np.ndarray[Any, Any]]:
    """Draw weights under their GGUF names (architecture qwen2, float32).

    Args:
        shape: The model's sizes.
        seed: Seeds the draw.
        end_bias: Added to the logit of `<|im_end|>`; -50 makes replies never end by themselves.
        close_bias: Added to the logits of `"` and `}`, so that random JSON comes to an end.
        high_bias: Added to the logits of bytes above 127; -50 makes replies plain ASCII.
    """
    rng = np.random.default_rng(seed)
    size = len(vocabulary(shape.vocabulary))
    width, kv = shape.embedding, shape.embedding // shape.heads * shape.kv_heads

    def draw(rows: int, columns: int) -> np.ndarray[Any, Any]:
        made = rng.standard_normal((rows, columns), dtype=np.float32)
        return made * np.float32(2.0 / np.sqrt(columns))

    made: dict[str, np.ndarray[Any, Any]] = {
        "token_embd.weight": rng.standard_normal((size, width), dtype=np.float32),
        "output_norm.weight": np.ones(width, np.float32),
        "output.weight": draw(size, width),
        "output.bias": np.zeros(size, np.float32),
    }
    tokens = vocabulary()
    made["output.bias"][tokens.index(SPECIAL[2])] = end_bias
    made["output.bias"][[tokens.index('"'), tokens.index("}")]] = close_bias
    made["output.bias"][128:256] += np.float32(high_bias)
    # Unused tokens and the other special ones never win, as in a trained model.
    made["output.bias"][[tokens.index(SPECIAL[0]), tokens.index(SPECIAL[1])]] = -50.0
    made["output.bias"][len(tokens) :] = -50.0
    for n in range(shape.layers):
        made |= {
            f"blk.{n}.attn_norm.weight": np.ones(width, np.float32),
            f"blk.{n}.attn_q.weight": draw(width, width),
            f"blk.{n}.attn_k.weight": draw(kv, width),
            f"blk.{n}.attn_v.weight": draw(kv, width),
            f"blk.{n}.attn_q.bias": np.zeros(width, np.float32),
            f"blk.{n}.attn_k.bias": np.zeros(kv, np.float32),
            f"blk.{n}.attn_v.bias": np.zeros(kv, np.float32),
            f"blk.{n}.attn_output.weight": draw(width, width),
            f"blk.{n}.ffn_norm.weight": np.ones(width, np.float32),
            f"blk.{n}.ffn_gate.weight": draw(shape.feed_forward, width),
            f"blk.{n}.ffn_up.weight": draw(shape.feed_forward, width),
            f"blk.{n}.ffn_down.weight": draw(width, shape.feed_forward),
        }
    return made


def write(
    path: Path,
    shape: Shape | None = None,
    *,
    seed: int = 0,
    end_bias: float = 0.0,
    close_bias: float = 0.0,
    high_bias: float = 0.0,
    template: str | None = CHATML,
    architecture: str = "qwen2",
    numbers: NUMBERS = "f32",
    window: int = 0,
) -> Path:
    """Write a GGUF file and return its path.

    With a `window`, every second layer attends to that many tokens (architecture gemma2).
    """
    import gguf

    shape = shape or Shape()
    tokens = vocabulary(shape.vocabulary)
    writer = gguf.GGUFWriter(str(path), "gemma2" if window else architecture)
    writer.add_name("tiny")
    writer.add_block_count(shape.layers)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.embedding)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10_000.0)
    if window:
        writer.add_sliding_window(window)
    _add_tokenizer(writer, tokens, template)
    kinds = {
        "f32": gguf.GGMLQuantizationType.F32,
        "f16": gguf.GGMLQuantizationType.F16,
        "q8_0": gguf.GGMLQuantizationType.Q8_0,
    }
    drawn = weights(shape, seed, end_bias=end_bias, close_bias=close_bias, high_bias=high_bias)
    if window:
        drawn = _gemma2(drawn, shape)
    for name, values in drawn.items():
        kind = kinds[numbers] if values.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    return _written(writer, path)


def write_mamba(path: Path, *, seed: int = 0, width: int = 64, layers: int = 2) -> Path:
    """Write a GGUF file of a model with a recurrent state instead of attention; return its path."""
    import gguf

    tokens, rng = vocabulary(), np.random.default_rng(seed)
    inner, state, rank, kernel = 2 * width, 16, 4, 4
    writer = gguf.GGUFWriter(str(path), "mamba")
    writer.add_name("tiny mamba")
    writer.add_block_count(layers)
    writer.add_context_length(2048)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_ssm_conv_kernel(kernel)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(rank)
    _add_tokenizer(writer, tokens, CHATML)

    def draw(rows: int, columns: int) -> np.ndarray[Any, Any]:
        made = rng.standard_normal((rows, columns), dtype=np.float32)
        return made * np.float32(2.0 / np.sqrt(columns))

    made = {
        "token_embd.weight": draw(len(tokens), width),
        "output.weight": draw(len(tokens), width),
    }
    made["output_norm.weight"] = np.ones(width, np.float32)
    for n in range(layers):
        made |= {
            f"blk.{n}.attn_norm.weight": np.ones(width, np.float32),
            f"blk.{n}.ssm_in.weight": draw(2 * inner, width),
            f"blk.{n}.ssm_conv1d.weight": draw(inner, kernel),
            f"blk.{n}.ssm_conv1d.bias": np.zeros(inner, np.float32),
            f"blk.{n}.ssm_x.weight": draw(rank + 2 * state, inner),
            f"blk.{n}.ssm_dt.weight": draw(inner, rank),
            f"blk.{n}.ssm_dt.bias": np.zeros(inner, np.float32),
            f"blk.{n}.ssm_a": -np.ones((inner, state), np.float32),
            f"blk.{n}.ssm_d": np.ones(inner, np.float32),
            f"blk.{n}.ssm_out.weight": draw(width, inner),
        }
    for name, values in made.items():
        writer.add_tensor(name, values)
    return _written(writer, path)


def _add_tokenizer(writer: Any, tokens: list[str], template: str | None) -> None:
    import gguf

    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    control, normal, unused = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL, gguf.TokenType.UNUSED
    writer.add_token_types(
        [control if token in SPECIAL else unused if token.startswith("[unused") else normal for token in tokens]
    )
    writer.add_token_merges([" ".join(pair) for pair in merges()])
    writer.add_bos_token_id(tokens.index(SPECIAL[0]))
    writer.add_eos_token_id(tokens.index(SPECIAL[2]))
    writer.add_add_bos_token(False)
    if template is not None:
        writer.add_chat_template(template)


def _written(writer: Any, path: Path) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _gemma2(drawn: dict[str, np.ndarray[Any, Any]], shape: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """Return weights as Gemma 2 has them: no biases, tied embeddings, two more norms a layer."""
    kept = {name: one for name, one in drawn.items() if not name.endswith(".bias")}
    del kept["output.weight"]
    for n in range(shape.layers):
        for norm in ("post_attention_norm", "post_ffw_norm"):
            kept[f"blk.{n}.{norm}.weight"] = np.ones(shape.embedding, np.float32)
    return kept


def transformers_model(shape: Shape | None = None, *, seed: int = 0) -> Any:
    """Return the model of `write(path, shape, seed=seed)` as transformers runs it (float32)."""
    import torch
    import transformers

    shape = shape or Shape()
    drawn = {name: torch.from_numpy(values) for name, values in weights(shape, seed).items()}
    config = transformers.Qwen2Config(
        vocab_size=len(vocabulary(shape.vocabulary)),
        hidden_size=shape.embedding,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        max_position_embeddings=shape.context,
        rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        tie_word_embeddings=False,
        bos_token_id=vocabulary().index(SPECIAL[0]),
        eos_token_id=vocabulary().index(SPECIAL[2]),
    )
    model = transformers.Qwen2ForCausalLM(config)
    # transformers' class has no output bias: give it one, as the file has.
    model.lm_head = torch.nn.Linear(shape.embedding, config.vocab_size, bias=True)
    model.load_state_dict({_hf_name(name): values for name, values in drawn.items()})
    return model.eval()


def _hf_name(name: str) -> str:
    names = {
        "token_embd": "model.embed_tokens",
        "output_norm": "model.norm",
        "output": "lm_head",
        "attn_norm": "input_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_norm": "post_attention_layernorm",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }
    *place, part, kind = name.split(".")
    prefix = f"model.layers.{place[1]}." if place else ""
    return f"{prefix}{names[part]}.{kind}"


def transformers_tokenizer() -> Any:
    """Return the file's tokenizer as transformers runs it."""
    import tokenizers
    import transformers

    tokens = vocabulary()
    core = tokenizers.Tokenizer(tokenizers.models.BPE({token: i for i, token in enumerate(tokens)}, list(merges())))
    core.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = tokenizers.decoders.ByteLevel()
    core.add_special_tokens(list(SPECIAL))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=core, bos_token=SPECIAL[0], eos_token=SPECIAL[2])
