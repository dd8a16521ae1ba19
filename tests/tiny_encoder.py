"""A tiny randomly initialised BERT with its tokenizer; nothing is downloaded."""

from __future__ import annotations

from pathlib import Path

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXT = """
who wrote hamlet is it william shakespeare the painter paris rome london in a city of france italy
england capital what where when was born 1564 he she play poet sure not i do know maybe answer
| . , ? ( ) [ ] … long river mountain snow blue green old new cat dog bird ate ran saw
"""


def make_tiny_encoder(folder: Path, *, limit: int = 64, seed: int = 0) -> Path:
    """Write an encoder of two small layers into `folder`, as sentence-transformers would find it."""
    import tokenizers
    import torch
    import transformers

    words = [*SPECIAL, *dict.fromkeys(TEXT.split())]
    vocabulary = {word: i for i, word in enumerate(words)}
    raw = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    raw.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    raw.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    raw.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer = transformers.BertTokenizer(tokenizer_object=raw, vocab=vocabulary, model_max_length=limit)
    torch.set_num_threads(1)  # so small a model only loses time by more
    torch.manual_seed(seed)
    config = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=limit,
        initializer_range=0.2,
    )
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
