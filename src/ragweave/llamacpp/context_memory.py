"""What a context takes: the keys and values of each token, the recurrent state of each sequence.

Layers that attend hold keys and values for every token (llama.cpp's `llama_kv_cache`); recurrent
layers hold a state of fixed size for every sequence that the context is opened for, used or not
(`llama_memory_recurrent`). Which layer is which, and the sizes, follow `llama_hparams` and the
`load_arch_hparams` of each architecture.
"""

from __future__ import annotations

from ragweave.llamacpp.gguf import RECURRENT, GGUFFacts

_NUMBER, _STATE_NUMBER = 2, 4
"""Bytes: the cache has 16 bits a number, states have 32."""
_EVERY_FOURTH = ("qwen3next", "qwen35", "qwen35moe")
"""Architectures in which every fourth layer attends, unless the header says otherwise."""
_BOTH = "falcon-h1"
"""The architecture whose layers all attend and are recurrent."""


def attention_bytes(facts: GGUFFacts) -> int | None:
    """Return the bytes of a token's keys and values; None where the header does not say.

    Layers with a sliding window count in full, as this engine opens them.
    """
    if facts.architecture in RECURRENT:
        return 0
    layers, width = _layers(facts), facts.count("embedding_length")
    heads = facts.count("attention.head_count")
    if not (layers and width and heads):
        return None
    kv_heads = _each(facts, "attention.head_count_kv", layers) or [heads] * layers
    windowed = _each(facts, "attention.sliding_window_pattern", layers) or [0] * layers
    recurrent = _recurrent(facts) if facts.architecture != _BOTH else [False] * layers
    full, narrow = (_head_numbers(facts, width // heads, end) for end in ([""], ["_swa", ""]))
    with_own = layers - (facts.count("attention.shared_kv_layers") or 0)
    rows = list(zip(kv_heads, windowed, recurrent, strict=False))[:with_own]
    numbers = (
        (narrow if has_window == 1 else full) * count
        for count, has_window, is_recurrent in rows
        if not is_recurrent
    )
    return _NUMBER * sum(numbers)


def state_bytes(facts: GGUFFacts) -> int:
    """Return the bytes of a sequence's recurrent states; 0 in models without any."""
    return _STATE_NUMBER * _state_numbers(facts) * sum(_recurrent(facts))


def _layers(facts: GGUFFacts) -> int:
    """Return how many layers compute tokens: those that draft further ones are never opened."""
    return (facts.layers or 0) - (facts.count("nextn_predict_layers") or 0)


def _each(facts: GGUFFacts, key: str, layers: int) -> list[int]:
    """Return a number for each layer; empty where the header has none."""
    listed = facts.lists.get(f"{facts.architecture}.{key}")
    if listed is not None:
        return [max(0, one) for one in listed[:layers]]
    one = facts.count(key)
    return [] if one is None else [one] * layers


def _head_numbers(facts: GGUFFacts, width: int, ends: list[str]) -> int:
    """Return the numbers of a head's key and value, each `width` where the header has no size.

    Args:
        facts: The model file.
        width: The embedding's share of a head.
        ends: Ends of the names of a size, the first that is there counts.
    """
    keys, values = (
        [facts.count(f"attention.{part}_length{end}") for end in ends] for part in ("key", "value")
    )
    latent = all(facts.count(f"attention.{part}_length_mla") for part in ("key", "value"))
    kept = (keys,) if latent else (keys, values)  # latent attention reads values off the keys
    return sum(next((one for one in sizes if one), width) for sizes in kept)


def _recurrent(facts: GGUFFacts) -> list[bool]:
    """Return for each layer whether it has a recurrent state."""
    name, layers = facts.architecture, _layers(facts)
    if name in RECURRENT or name == _BOTH:
        return [True] * layers
    told = facts.lists.get(f"{name}.attention.recurrent_layers")
    if told is not None:
        return [one != 0 for one in told[:layers]]
    interval = facts.count("full_attention_interval") or (4 if name in _EVERY_FOURTH else 0)
    if interval > 0:
        return [number % interval != 0 for number in range(1, layers + 1)]
    heads = _each(facts, "attention.head_count_kv", layers)
    is_mixed = name.startswith("nemotron_h")  # its feed-forward layers stand by themselves
    fed = _each(facts, "feed_forward_length", layers) if is_mixed else [0] * layers
    return [not count and not more for count, more in zip(heads, fed, strict=False)]


def _state_numbers(facts: GGUFFacts) -> int:
    """Return how many numbers a recurrent layer's state has, its convolution's past included."""
    width, kernel = facts.count("embedding_length") or 0, facts.count("ssm.conv_kernel") or 0
    if head := facts.count("wkv.head_size"):  # RWKV
        return width * (head + (facts.count("token_shift_count") or 2))
    if short := facts.count("shortconv.l_cache"):  # LFM2
        return width * (short - 1)
    if head := facts.count("kda.head_dim"):  # Kimi
        past = kernel - 1 if kernel else 3
        return (facts.count("attention.head_count") or 0) * head * (head + 3 * past)
    inner, size = facts.count("ssm.inner_size") or 0, facts.count("ssm.state_size") or 0
    groups = facts.count("ssm.group_count") or 0
    return max(kernel - 1, 0) * (inner + 2 * groups * size) + size * inner
