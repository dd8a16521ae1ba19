"""Training of components that generate text: FLAN-T5 in full, Llama with low-rank adapters by peft, both by transformers.

Settings are FILCO's (Wang et al. 2023, section 4.1 and appendix); SlimPLM (Tan et al. 2024, appendix A) trains its judge
and rewriter from Llama2-7B-Chat and prints no settings. The loss is on the output alone.
"""

from pathlib import Path
from typing import Any, cast

import torch
from transformers import DataCollatorForSeq2Seq, Trainer, TrainingArguments, set_seed

from ragweave.tools.models.huggingface import example_of, model_folder, model_of, tokenizer_of
from ragweave.tools.text.words import normalize_answer
from ragweave.tools.trained.card import TrainedRole
from ragweave.tools.trained.forms import Input, filter_input, fitted, flat, generator_input, judge_input, lead
from ragweave.tools.trained.writer import TextWriter
from ragweave.training.job import Job, LoraSettings, Trained, WriterSettings
from ragweave.training.rows import FilterRow, JudgeRow, LabelledRow, RewriteRow, unit_of
from ragweave.training.trainer import arguments, has_bfloat16, one_gpu, run

_MAX_MEASURED = 200
"""Maximum held-out rows that are measured."""
_MARKS = "<>"
"""Marks of verdicts and claims, which T5's vocabulary lacks."""


def example(role: TrainedRole, row: LabelledRow) -> tuple[Input, str]:
    """Return what a component of this role reads from a row, and what it must write."""
    if isinstance(row, JudgeRow):
        return judge_input(row.question, row.draft), f"<Known({row.known})>"
    if isinstance(row, RewriteRow):
        return judge_input(row.question, row.draft), row.target
    silver = cast("FilterRow", row)
    if role == "filter":
        return filter_input(row.question, [passage.text for passage in silver.passages]), " ".join(
            map(flat, silver.kept_texts())
        )
    # if nothing is kept, the released code shows the full passages, and PSG shows none
    texts = silver.kept_texts() or ([] if silver.by_passage else [passage.text for passage in silver.passages])
    return generator_input(row.question, texts), silver.answers[0]


def fit(job: Job) -> Trained:
    """Train a sequence-to-sequence model in full, or low-rank adapters on a causal one, and measure it."""
    settings = cast("WriterSettings", job.settings)
    set_seed(settings.seed)
    path = model_folder(settings.base)
    tokenizer, limit = tokenizer_of(path), settings.max_input
    if causal := isinstance(settings, LoraSettings):
        model = _with_adapters(path, settings)
        context = getattr(model.config, "max_position_embeddings", limit + settings.max_output)
        limit = min(limit, context - settings.max_output)
    else:
        model = model_of(path, "AutoModelForSeq2SeqLM", dtype=torch.float32)
        if job.role in ("judge", "rewriter"):
            _add_marks(tokenizer)
        if len(tokenizer) > model.get_input_embeddings().num_embeddings:
            model.resize_token_embeddings(len(tokenizer))

    def encoded(row: LabelledRow) -> dict[str, list[int]]:
        text, target = example(job.role, row)
        if causal:
            text = text._replace(tail=text.tail + lead(job.role, row.question))
        read = tokenizer(fitted(tokenizer, text, limit)[0])["input_ids"]
        ids = tokenizer(target, add_special_tokens=False)["input_ids"][: settings.max_output - 1]
        wanted = [*ids, tokenizer.eos_token_id]
        return example_of(read, wanted, causal=causal)

    values = arguments(settings, job.folder, activation_checkpointing=settings.activation_checkpointing)
    trainer: Any = Trainer(
        model=model,
        args=one_gpu(TrainingArguments(**values)),
        train_dataset=cast("Any", [encoded(row) for row in job.train]),
        data_collator=DataCollatorForSeq2Seq(tokenizer, model),
        compute_loss_func=None if causal else _loss_of_tokens,
    )
    run(trainer, job)
    return _finished(job, trainer, model, tokenizer, limit)


def _with_adapters(path: Path, settings: LoraSettings) -> Any:
    import peft

    dtype = torch.bfloat16 if torch.cuda.is_available() and has_bfloat16() else torch.float32
    model = model_of(path, "AutoModelForCausalLM", dtype=dtype)
    if settings.activation_checkpointing:
        model.enable_input_require_grads()  # else no gradient reaches the adapters
    config = peft.LoraConfig(
        task_type=peft.TaskType.CAUSAL_LM,
        r=settings.lora_rank,
        lora_alpha=settings.lora_alpha,
        lora_dropout=settings.lora_dropout,
        target_modules="all-linear",
    )
    return peft.get_peft_model(model, config)


def _add_marks(tokenizer: Any) -> None:
    from tokenizers import AddedToken

    unknown = tokenizer.unk_token_id
    missing = [mark for mark in _MARKS if unknown in tokenizer(mark, add_special_tokens=False)["input_ids"]]
    tokenizer.add_tokens([AddedToken(mark, normalized=False) for mark in missing])


def _loss_of_tokens(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Any:
    """Return the loss over the target's tokens in the batch.

    T5 returns the mean of each micro-batch, and the trainer adds these up: gradients would grow with their number.
    """
    logits = outputs["logits"].float().flatten(0, 1)
    total = torch.nn.functional.cross_entropy(logits, labels.flatten(), ignore_index=-100, reduction="sum")
    return total / (num_items_in_batch if num_items_in_batch is not None else (labels >= 0).sum())


def _finished(job: Job, trainer: Any, model: Any, tokenizer: Any, max_input: int) -> Trained:
    settings = cast("WriterSettings", job.settings)
    if main := trainer.is_world_process_zero():
        model.save_pretrained(job.folder)
        if isinstance(settings, LoraSettings):  # only now: if the base has a name, peft asks the hub at each checkpoint
            adapters = model.peft_config["default"]
            adapters.base_model_name_or_path = settings.base
            adapters.save_pretrained(job.folder)
        tokenizer.save_pretrained(job.folder)
    writer = TextWriter(model, tokenizer, job.role, max_input, settings.max_output)
    rows = job.held_out[:_MAX_MEASURED] if main else []
    right = [_is_right(job.role, row, writer) for row in rows]
    fields: dict[str, Any] = {"max_input": max_input, "max_output": settings.max_output}
    if job.role in ("filter", "generator"):
        silver = cast("list[FilterRow]", job.train)
        fields |= {"unit": unit_of(job.train), "alone": all(len(row.passages) == 1 for row in silver)}
    metrics = {"exact_match": sum(right) / len(right), "measured_rows": float(len(right))} if right else {}
    return Trained(metrics=metrics, fields=fields, main=main)


def _is_right(role: TrainedRole, row: LabelledRow, writer: TextWriter) -> bool:
    """Return whether the output is the target word for word; for a generator, whether it is a right answer."""
    text, target = example(role, row)
    (written,) = writer.write(row.question, [text])
    if role == "generator":
        return normalize_answer(written.text) in map(normalize_answer, cast("FilterRow", row).answers)
    return written.text.split() == target.split()
