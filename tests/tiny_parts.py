"""Tiny trained parts, made here at once: real weights, nothing downloaded.

`make_scorer` has a small random BERT tell a few pairs apart, `make_writer` a small random Llama
write a few outputs: only their last, linear layer is fitted, by least squares. Both write the
folder that a training would.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragweave.trained import ModelCard, PartRole, write_card
from ragweave.trained.forms import LEADS

Pair = tuple[str, str, bool]
"""Two texts, and whether their probability is to be high."""


def make_scorer(
    folder: Path, role: PartRole, pairs: Sequence[Pair], *, threshold: float | None = 0.5
) -> Path:
    """Write a cross-encoder that has learnt `pairs` by heart; other words are unknown to it."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(3)
    torch.set_num_threads(1)  # so small a model only loses time by more
    tokenizer = word_tokenizer({word for a, b, _ in pairs for word in f"{a} {b}".lower().split()})
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=tokenizer.model_max_length,
        num_labels=1,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = BertForSequenceClassification(config).eval()
    batch = tokenizer(
        [a for a, _, _ in pairs], [b for _, b, _ in pairs], padding=True, return_tensors="pt"
    )
    with torch.inference_mode():
        pooled = model.bert(**batch).pooler_output
    wanted = torch.tensor([[6.0 if label else -6.0] for _, _, label in pairs])
    _solve(model.classifier, pooled, wanted)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return finish(folder, role, "cross-encoder", threshold=threshold)


def make_writer(
    folder: Path, role: PartRole, outputs: Mapping[str, str], *, passages: int = 0
) -> Path:
    """Write a causal part that writes a given text for each input, its base in the folder."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(3)
    torch.set_num_threads(1)  # so small a model only loses time by more
    tokenizer = byte_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=256,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=1024,
        initializer_range=0.3,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config).eval()
    hidden, wanted = [], []
    for given, output in outputs.items():
        read = tokenizer(given + LEADS[role], add_special_tokens=False)["input_ids"]
        told = [*tokenizer(output, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
        with torch.inference_mode():
            states = model.model(torch.tensor([[*read, *told]])).last_hidden_state[0]
        hidden.append(states[len(read) - 1 : -1])
        wanted.append(torch.nn.functional.one_hot(torch.tensor(told), len(tokenizer)))
    _solve(model.lm_head, torch.cat(hidden), torch.cat(wanted) * 10.0)
    model.save_pretrained(folder / "base")
    _write_adapters(folder, config)
    tokenizer.save_pretrained(folder)
    data = {"passages": passages} if passages else {}
    return finish(folder, role, "causal-lora", base="base", data=data)


def _write_adapters(folder: Path, config: Any) -> None:
    """Write adapters that change nothing, as peft would."""
    import torch
    from safetensors.torch import save_file

    told = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(told), "utf-8")
    weights: dict[str, Any] = {}
    for layer in range(config.num_hidden_layers):
        name = f"base_model.model.model.layers.{layer}.self_attn.q_proj"
        weights[f"{name}.lora_A.weight"] = torch.ones(2, config.hidden_size)
        weights[f"{name}.lora_B.weight"] = torch.zeros(config.hidden_size, 2)
    save_file(weights, folder / "adapter_model.safetensors", {"format": "pt"})


def finish(folder: Path, role: PartRole, kind: str, *, base: str = "tiny", **fields: Any) -> Path:
    """Write the card, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"max_input": 400, "max_output": 160}
    card = ModelCard(role=role, kind=kind, base=base, settings=settings, created="now", **fields)
    write_card(folder, card)
    return folder


def _solve(layer: Any, given: Any, wanted: Any) -> None:
    """Set a linear layer so that it gives `wanted` (rows, outputs) for `given` (rows, inputs)."""
    import torch

    given, wanted = given.double(), wanted.double()
    weights = torch.linalg.pinv(given, rtol=1e-9) @ wanted
    assert (given @ weights - wanted).abs().max() < 0.2, "too much for so small a model"
    layer.weight.data = weights.T.float().contiguous()
    if layer.bias is not None:
        layer.bias.data.zero_()


def word_tokenizer(words: set[str]) -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[", "]", "|", ".", "?", ",", "…"]
    listed = [*marks, *sorted({word.strip(".,?") for word in words})]
    vocabulary = {word: at for at, word in enumerate(dict.fromkeys(listed)) if word}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    raw.normalizer = normalizers.Lowercase()
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    raw.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=96,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def byte_tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {one: at for at, one in enumerate(["<pad>", "</s>", *letters])}
    raw = Tokenizer(models.BPE(vocabulary, []))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", eos_token="</s>")
