"""Tiny random models that write, with byte-level tokenizers; nothing is downloaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def byte_tokenizer(*, ends: bool) -> Any:
    """Return a tokenizer with a token for each byte; `ends`: inputs get an end token, as T5's do."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: at for at, token in enumerate(["<pad>", "</s>", "<unk>", *letters])}
    raw = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    if ends:
        raw.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=1024
    )


def make_tiny_llama(folder: Path) -> Path:
    """Write a causal model."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(3)
    tokenizer = byte_tokenizer(ends=False)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=1024,
        initializer_range=0.3,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_tiny_t5(folder: Path) -> Path:
    """Write a sequence-to-sequence model."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(3)
    tokenizer = byte_tokenizer(ends=True)
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=64,
        d_kv=16,
        d_ff=64,
        num_layers=1,
        num_heads=4,
        dropout_rate=0.0,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
    )
    T5ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
