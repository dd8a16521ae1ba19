"""Tiny random models with tokenizers of their own, and rows for them to learn."""

from __future__ import annotations

from pathlib import Path

import tokenizers
import torch
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from ragweave.tools.scorers.huggingface import quiet
from ragweave.trained.forms import LEADS as LEADS
from ragweave.training.job import Job, Settings, Watch
from ragweave.training.rows import Split

SETTINGS = {"precision": "float32", "device": "cpu", "save_every": 1000, "max_output": 64}

PLACES = ["Paris", "Rome", "Oslo", "Lima", "Cairo", "Delhi", "Quito", "Bern"]
LANDS = ["France", "Italy", "Norway", "Peru", "Egypt", "India", "Ecuador", "Switzerland"]


def sentence(place, land):
    return f"{place} is the capital of {land}."


def silver_rows(count=8):
    rows = []
    for i, (place, land) in enumerate(list(zip(PLACES, LANDS, strict=True))[:count]):
        kept = sentence(place, land)
        text = f"Many people live there. {kept} The food is good."
        start = text.index(kept)
        span = {"passage_id": f"p{i}", "start": start, "end": start + len(kept)}
        rows.append(
            {
                "id": str(i),
                "question": f"What is the capital of {land}?",
                "answers": [place],
                "passages": [{"id": f"p{i}", "title": land, "text": text}],
                "spans": [{**span, "text": kept, "score": 1.0}],
            }
        )
    return rows


def judge_rows(count=8):
    return [
        {
            "id": str(i),
            "question": f"What is the capital of {land}?",
            "draft": PLACES[i] if i % 2 else "I am not sure.",
            "known": bool(i % 2),
        }
        for i, land in enumerate(LANDS[:count])
    ]


def rewrite_rows(count=4):
    return [
        {
            "id": str(i),
            "question": f"What is the capital of {land}?",
            "draft": PLACES[i],
            "target": f"<Claim> {sentence(PLACES[i], land)} <Query> capital {land}",
        }
        for i, land in enumerate(LANDS[:count])
    ]


ROWS = {
    "judge": judge_rows,
    "rewriter": rewrite_rows,
    "filter": silver_rows,
    "generator": silver_rows,
}

TEXT = [
    f"question: What is the capital of {land}? context: {land}: Many people live there. "
    f"{sentence(place, land)} The food is good. answer: Known(True) Known(False) Claim Query "
    "Coarse answer: ((I am not sure.)) Question: filtered context Necessity Judgment Rewrite Output"
    for place, land in zip(PLACES, LANDS, strict=True)
]


def causal_tokenizer():
    raw = tokenizers.Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator(TEXT, trainer)
    raw.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<s>", eos_token="</s>"
    )


def seq2seq_tokenizer():
    """Like T5's: sentence pieces, white space folded, no `<` or `>` in the vocabulary."""
    raw = tokenizers.Tokenizer(models.Unigram())
    raw.normalizer = normalizers.Replace(tokenizers.Regex(r"\s+"), " ")
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    raw.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=300,
        special_tokens=["<pad>", "</s>", "<unk>"],
        unk_token="<unk>",
        show_progress=False,
    )
    raw.train_from_iterator(TEXT, trainer)
    raw.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )


def causal_base(folder: Path, **config) -> Path:
    torch.manual_seed(1)
    tokenizer = causal_tokenizer()
    shape = {
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "initializer_range": 0.3,
    }
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**shape, **config}))
    with quiet():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def seq2seq_base(folder: Path, **config) -> Path:
    torch.manual_seed(1)
    tokenizer = seq2seq_tokenizer()
    shape = {
        "vocab_size": len(tokenizer),
        "d_model": 64,
        "d_kv": 16,
        "d_ff": 128,
        "num_layers": 2,
        "num_heads": 4,
        "decoder_start_token_id": 0,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "dropout_rate": 0.0,
        "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": False,
    }
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(**{**shape, **config}))
    with quiet():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


BASES = {"seq2seq": seq2seq_base, "causal-lora": causal_base}
"""Maker of a tiny base, by kind."""

LEARN = {
    "seq2seq": {"epochs": 25.0, "learning_rate": 3e-3, "batch": 4, "micro_batch": 4},
    "causal-lora": {
        "epochs": 15.0,
        "learning_rate": 1e-2,
        "batch": 4,
        "micro_batch": 4,
        "lora_rank": 16,
        "lora_dropout": 0.0,
    },
}
"""Settings that overfit a tiny model on a few rows, by kind."""


def see_two_gpus(monkeypatch):
    """Let transformers' arguments count two GPUs, as on a machine that has them."""
    made = transformers.TrainingArguments.__post_init__

    def counted(self):
        made(self)
        self._n_gpu = 2

    monkeypatch.setattr(transformers.TrainingArguments, "__post_init__", counted)


class Losses(Watch):
    """Keeps what it is told; asks to stop after a step."""

    def __init__(self, stop_after=None):
        super().__init__()
        self.losses, self.lines, self.stop_after = [], [], stop_after

    def step(self, done, total, loss):
        self.losses.append(loss)
        self.total = total
        if done == self.stop_after:
            self.stop_wanted = True

    def say(self, line):
        self.lines.append(line)


def job(base: Path, folder: Path, role, kind, *, train=None, held_out=(), watch=None, **settings):
    folder.mkdir(exist_ok=True)
    resume = settings.pop("resume", False)
    return Job(
        role=role,
        kind=kind,
        rows=Split(ROWS[role]() if train is None else train, list(held_out)),
        settings=Settings(base=str(base), **{**SETTINGS, **settings}),
        folder=folder,
        resume=resume,
        watch=watch or Losses(),
    )
