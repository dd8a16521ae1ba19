"""Causal parts: a Llama-family model with low-rank adapters (FILCO, section 4.1; SlimPLM, A).

The loss is on the output alone: the input's tokens carry no label.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ragweave.tools.scorers.huggingface import find_base_model
from ragweave.trained.card import PartRole
from ragweave.trained.weights import adapters_over, read_model
from ragweave.training.job import Job, Settings
from ragweave.training.trainer.arguments import computes_bfloat16, one_gpu
from ragweave.training.writers.examples import EncodedRows
from ragweave.training.writers.fit import LargeRecipe, Learner
from ragweave.training.writers.seq2seq import MAX_OUTPUT

BASES: dict[PartRole, str] = {
    "judge": "meta-llama/Llama-2-7b-chat-hf",
    "rewriter": "meta-llama/Llama-2-7b-chat-hf",
    "filter": "meta-llama/Llama-2-7b-hf",
    "generator": "meta-llama/Llama-2-7b-hf",
}
"""SlimPLM begins from Llama2-7B-Chat, FILCO from Llama 2 7B."""


def defaults(role: PartRole) -> Settings:
    """Return FILCO's settings; neither paper prints the rank, nor SlimPLM any setting."""
    return Settings(base=BASES[role], max_output=MAX_OUTPUT[role])


def prepare(tokenizer: Any, role: PartRole) -> None:
    """Leave the tokenizer as it is: causal ones spell out in bytes what they do not know."""


def model(tokenizer: Any, settings: Settings) -> Any:  # noqa: ARG001
    """Load the base, frozen, and put new adapters on every linear layer but the last."""
    from peft import LoraConfig, TaskType

    dtype = "bfloat16" if computes_bfloat16(settings) else "float32"
    base = read_model(find_base_model(settings.base), causal=True, dtype=dtype)
    config = LoraConfig(
        task_type=TaskType.CAUSAL_LM,
        r=settings.lora_rank,
        lora_alpha=settings.lora_alpha,
        lora_dropout=settings.lora_dropout,
        target_modules="all-linear",
    )
    return adapters_over(base, config)


def trainer(learner: Learner, values: dict[str, Any], guard: Any, job: Job) -> Any:
    """Return trl's trainer over rows that are encoded already: it neither forms nor cuts them."""
    from datasets import Dataset

    trl: Any = import_module("trl")
    rows = EncodedRows(learner.encode, job.rows.train)
    return guard(trl.SFTTrainer)(
        model=learner.model,
        args=one_gpu(
            trl.SFTConfig(
                **values,
                max_length=None,
                packing=False,
                dataset_kwargs={"skip_prepare_dataset": True},
            )
        ),
        train_dataset=Dataset.from_dict(rows.columns()),
        processing_class=learner.tokenizer,
    )


def save(trained: Any, job: Job) -> None:
    """Write the adapters, under the base's name as the user gave it."""
    trained.peft_config["default"].base_model_name_or_path = job.settings.base
    trained.save_pretrained(job.folder, save_embedding_layers=False)


RECIPE = LargeRecipe(
    roles=("judge", "rewriter", "filter", "generator"),
    extra="train",
    modules=("torch", "transformers", "accelerate", "peft", "trl", "datasets"),
    idle=frozenset(),
    settings=defaults,
    prepare=prepare,
    model=model,
    trainer=trainer,
    save=save,
)
"""How this kind is trained."""
