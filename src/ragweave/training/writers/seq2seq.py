"""Sequence-to-sequence parts: FLAN-T5, trained in full (FILCO, section 4.1)."""

from __future__ import annotations

from typing import Any

from ragweave.tools.scorers.huggingface import find_base_model
from ragweave.trained.card import PartRole
from ragweave.trained.weights import read_model
from ragweave.training.job import OF_ADAPTERS, Job, Settings
from ragweave.training.trainer.arguments import one_gpu
from ragweave.training.writers.examples import EncodedRows, add_marks
from ragweave.training.writers.fit import LargeRecipe, Learner

MAX_OUTPUT: dict[PartRole, int] = {
    "judge": 16,
    "rewriter": 512,
    "filter": 512,
    "generator": 128,
}
"""Most tokens of an output: FILCO's for filter and generator, ours for judge and rewriter."""


def defaults(role: PartRole) -> Settings:
    """Return FILCO's settings; SlimPLM prints none for its judge and rewriter."""
    return Settings(base="google/flan-t5-xl", max_output=MAX_OUTPUT[role])


def prepare(tokenizer: Any, role: PartRole) -> None:
    """Teach T5's tokenizer the marks that judge and rewriter write."""
    if role in ("judge", "rewriter"):
        add_marks(tokenizer)


def model(tokenizer: Any, settings: Settings) -> Any:
    """Load the base in float32; bfloat16 training keeps these as its master weights."""
    loaded = read_model(find_base_model(settings.base), causal=False, dtype="float32")
    if len(tokenizer) > loaded.get_input_embeddings().num_embeddings:
        loaded.resize_token_embeddings(len(tokenizer))
    return loaded


def trainer(learner: Learner, values: dict[str, Any], guard: Any, job: Job) -> Any:
    """Return transformers' sequence-to-sequence trainer over the rows."""
    from transformers import (
        DataCollatorForSeq2Seq,
        Seq2SeqTrainer,
        Seq2SeqTrainingArguments,
    )

    return guard(Seq2SeqTrainer)(
        model=learner.model,
        args=one_gpu(Seq2SeqTrainingArguments(**values)),
        train_dataset=EncodedRows(learner.encode, job.rows.train),
        data_collator=DataCollatorForSeq2Seq(learner.tokenizer, learner.model),
        processing_class=learner.tokenizer,
        compute_loss_func=loss_a_token,
    )


def loss_a_token(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Any:
    """Return the loss of all target tokens over the number of them in the whole batch.

    T5 takes the mean of each micro-batch, and the trainer, which believes that it does not, adds
    them up: gradients would grow with every halving of the micro-batch.
    """
    from torch.nn.functional import cross_entropy

    logits = outputs["logits"].float().flatten(0, 1)
    total = cross_entropy(
        logits, labels.to(logits.device).flatten(), ignore_index=-100, reduction="sum"
    )
    return total / (num_items_in_batch if num_items_in_batch is not None else (labels >= 0).sum())


def save(trained: Any, job: Job) -> None:
    """Write the whole model."""
    trained.save_pretrained(job.folder)


RECIPE = LargeRecipe(
    roles=("judge", "rewriter", "filter", "generator"),
    extra="train",
    modules=("torch", "transformers", "accelerate"),
    idle=OF_ADAPTERS,
    settings=defaults,
    prepare=prepare,
    model=model,
    trainer=trainer,
    save=save,
)
"""How this kind is trained."""
