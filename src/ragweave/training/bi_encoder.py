"""Training of bi-encoders as filters by sentence-transformers' trainer.

The loss is the negative log of the softmax share of a sentence to keep among those of its batch, at least one of which is
a sentence to drop of the same row (Henderson et al. 2017, Efficient Natural Language Response Suggestion for Smart Reply,
section 4.4).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import cast

from sentence_transformers.sentence_transformer import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from transformers import set_seed

from datasets import Dataset
from ragweave.errors import UsageError
from ragweave.tools.models.huggingface import model_folder
from ragweave.tools.trained.bi_encoder import SCALE, read, sentences_with_titles, shares
from ragweave.tools.trained.card import CARD, read_card
from ragweave.tools.trained.forms import Passage
from ragweave.training.job import EncoderSettings, Job, Scored, Trained, measured
from ragweave.training.rows import FilterRow, LabelledRow, sentences_of, unit_of
from ragweave.training.trainer import arguments, one_gpu, run

_NEGATIVES = 2
"""Maximum sentences to drop that each sentence to keep is compared with, besides those of other rows."""


def fit(job: Job) -> Trained:
    """Train a bi-encoder, choose its threshold and measure it."""
    settings = cast("EncoderSettings", job.settings)
    set_seed(settings.seed)
    model = read(_start(settings.base), settings.max_input)
    triplets = list(_triplets(job.train, Random(settings.seed)))
    if not triplets:
        raise UsageError("no row has both sentences to keep and sentences to drop; a filter learns from both")
    values = arguments(settings, job.folder, batch_sampler="no_duplicates")
    trainer = SentenceTransformerTrainer(
        model=model,
        args=one_gpu(SentenceTransformerTrainingArguments(**values)),
        train_dataset=Dataset.from_list(triplets),
        loss=MultipleNegativesRankingLoss(model, scale=SCALE),
    )
    run(trainer, job)
    scored = [
        Scored(
            shares(model, question, passages),
            keep,
            [len(text.split()) for passage in passages for text in passage.sentences],
        )
        for question, passages, keep in _mixed(job.held_out)
    ]
    metrics, threshold = measured(scored, settings.recall)
    if main := trainer.is_world_process_zero():
        model.save_pretrained(str(job.folder), create_model_card=False)
    fields = {"threshold": threshold, "unit": unit_of(job.train), "max_input": model.max_seq_length}
    return Trained(metrics=metrics, fields=fields, main=main)


def _triplets(rows: Sequence[LabelledRow], random: Random) -> Iterator[dict[str, str]]:
    """Yield each sentence to keep with sentences to drop of its row."""
    for question, passages, keep in _mixed(rows):
        texts = sentences_with_titles(passages)
        dropped = [text for text, is_kept in zip(texts, keep, strict=True) if not is_kept]
        for text, is_kept in zip(texts, keep, strict=True):
            for negative in random.sample(dropped, min(_NEGATIVES, len(dropped))) if is_kept else ():
                yield {"question": question, "kept": text, "dropped": negative}


def _mixed(rows: Sequence[LabelledRow]) -> Iterator[tuple[str, list[Passage], list[bool]]]:
    """Yield question, passages and which sentences to keep, of rows with both kinds; the others teach nothing."""
    for row in cast("Sequence[FilterRow]", rows):
        passages, keep = sentences_of(row)
        if any(keep) and not all(keep):
            yield row.question, passages, keep


def _start(base: str) -> Path:
    """Return the base's folder, which is a trained filter's or that of an encoder."""
    folder = model_folder(base)
    if (folder / CARD).is_file() and (kind := read_card(folder, "filter").kind) != "bi-encoder":
        raise UsageError(f"{base}: is a {kind}; a bi-encoder starts from a bi-encoder or an encoder")
    return folder
