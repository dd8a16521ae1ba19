"""Log-probabilities from a Hugging Face transformers model, causal or sequence-to-sequence."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ragweave.errors import ModelError, UsageError
from ragweave.tools.models.weights import SAFELY, device, model_folder, model_of, need, tokenizer_of
from ragweave.tools.scorers.specs import checked_score


class _Pair(NamedTuple):
    prompt: list[int]
    continuation: list[int]


class HuggingFaceScorer:
    """Scores continuations with a transformers model, in padded batches.

    Prompt and continuation are tokenised apart and joined as ids, so that a pair's score is one forward pass over
    exactly those ids; batching changes it by floating-point noise only (below 1e-4 in float32). Threads take turns.

    Examples:
        >>> scorer = HuggingFaceScorer("google/flan-t5-base")  # doctest: +SKIP
        >>> scorer.score([("question: capital of France?", "Paris")])  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        batch_size: int = 16,
        end_token: bool = True,
        max_tokens: int | None = None,
        device: str | None = None,
        dtype: str = "float32",
    ) -> None:
        """Take a model, or the folder or hub name of one on this machine, which loads at the first call.

        Args:
            model: A folder, a hub name, or a loaded `PreTrainedModel` (it is put in eval mode).
            tokenizer: The model's tokenizer, if the model is loaded.
            batch_size: Pairs in a forward pass.
            end_token: Whether the end-of-sequence token counts as part of the continuation (FILCO's code counts it).
            max_tokens: Longest input in tokens; longer prompts lose their beginning. None: the model's own limit.
            device: A torch device; None: where a loaded model is, or CUDA if there is one.
            dtype: Number type to load a named model in; "auto": the checkpoint's, which may be too coarse for equal
                scores across batch sizes.

        Raises:
            UsageError: A number is below 1, or a loaded model came without its tokenizer.
        """
        for name, number in (("batch_size", batch_size), ("max_tokens", max_tokens)):
            if number is not None and number < 1:
                raise UsageError(f"{name} must be at least 1, not {number}")
        if tokenizer is None and not isinstance(model, str | Path):
            raise UsageError("a loaded model needs its tokenizer: HuggingFaceScorer(model, tokenizer)")
        self.batch_size, self.end_token, self.max_tokens = batch_size, end_token, max_tokens
        self._source, self._tokenizer = model, tokenizer
        self._model: Any = None
        self._device, self._dtype, self._lock = device, dtype, threading.RLock()

    @property
    def causal(self) -> bool:
        """Whether the model continues its prompt; it is loaded to find out."""
        return not self._loaded().config.is_encoder_decoder

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the summed natural-log probability of each continuation given its prompt.

        Raises:
            MissingExtraError: transformers or torch is not installed.
            ModelError: The model can't be read, or gives no number.
            UsageError: A continuation alone is longer than the model's input.
        """
        if not pairs:
            return []
        with self._lock:
            model = self._loaded()
            rows = [self._encoded(*pair) for pair in pairs]
            wanted = [at for at, row in enumerate(rows) if row.continuation]
            wanted.sort(key=lambda at: -len(rows[at].prompt) - len(rows[at].continuation))
            scores = [0.0] * len(rows)
            for first in range(0, len(wanted), self.batch_size):
                batch = wanted[first : first + self.batch_size]
                for at, value in zip(batch, _batch_scores(model, [rows[at] for at in batch]), strict=True):
                    scores[at] = value
            return scores

    def _loaded(self) -> Any:
        with self._lock:
            if self._model is None:
                self._model = self._load().eval()
            return self._model

    def _load(self) -> Any:
        if not isinstance(self._source, str | Path):
            return self._source if self._device is None else self._source.to(self._device)
        need("Hugging Face scoring", "hf", "transformers", "torch")
        from transformers import AutoConfig

        folder = model_folder(str(self._source))
        try:
            seq2seq = AutoConfig.from_pretrained(str(folder), **SAFELY).is_encoder_decoder
            auto = "AutoModelForSeq2SeqLM" if seq2seq else "AutoModelForCausalLM"
            self._tokenizer = self._tokenizer or tokenizer_of(folder)
            return model_of(folder, auto, dtype=self._dtype).to(self._device or device())
        except (OSError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise ModelError(f"can't load the scorer model {self._source}: {reason}") from error

    def _encoded(self, prompt: str, continuation: str) -> _Pair:
        tokenizer, eos, causal = self._tokenizer, self._tokenizer.eos_token_id, self.causal
        head = list(tokenizer(prompt, verbose=False)["input_ids"])
        tail = list(tokenizer(continuation, add_special_tokens=False, verbose=False)["input_ids"])
        tail += [eos] if self.end_token and eos is not None else []
        while causal and len(head) > 1 and head[-1] == eos:
            head.pop()  # behind an end token the continuation would be a new text
        head = head or [one for one in (tokenizer.bos_token_id, eos) if one is not None][:1]
        own = getattr(self._model.config, "max_position_embeddings", None)
        limit = min((one for one in (own, self.max_tokens) if one), default=None)
        if limit is None:
            return _Pair(head, tail)
        room = limit - (len(tail) if causal else 0)
        if len(tail) > limit or room < 1:
            raise UsageError(f"the text to score has {len(tail)} tokens, but the model takes {limit}: shorten it")
        if len(head) > room:
            first = [head[0]] if head[0] == tokenizer.bos_token_id else []
            head = [*first, *head[len(head) - room + len(first) :]]
        return _Pair(head, tail)


def _batch_scores(model: Any, rows: Sequence[_Pair]) -> list[float]:
    import torch

    with torch.inference_mode():
        if model.config.is_encoder_decoder:
            return _seq2seq(model, rows)
        ids, mask = _padded(model, [row.prompt + row.continuation for row in rows])
        first = min(len(row.prompt) for row in rows) - 1
        kept = ids.shape[1] - first
        # logits are as long as the vocabulary: none for the prompt, where the model can leave them out
        more = {"logits_to_keep": kept} if "logits_to_keep" in inspect.signature(model.forward).parameters else {}
        logits = model(input_ids=ids, attention_mask=mask, **more).logits[:, -kept:]
        starts = [len(row.prompt) - 1 - first for row in rows]
        return [_sum(one[start:], row.continuation) for one, start, row in zip(logits, starts, rows, strict=True)]


def _seq2seq(model: Any, rows: Sequence[_Pair]) -> list[float]:
    start = model.config.decoder_start_token_id
    if start is None:
        raise ModelError(f"{type(model).__name__} has no decoder start token, so that it can't be used for scoring")
    ids, mask = _padded(model, [row.prompt for row in rows])
    decoder, decoder_mask = _padded(model, [[start, *row.continuation[:-1]] for row in rows])
    logits = model(
        input_ids=ids, attention_mask=mask, decoder_input_ids=decoder, decoder_attention_mask=decoder_mask
    ).logits
    return [_sum(one, row.continuation) for one, row in zip(logits, rows, strict=True)]


def _padded(model: Any, rows: Sequence[Sequence[int]]) -> tuple[Any, Any]:
    """Return ids and mask, (rows, longest), padded on the right, where no token sees the padding."""
    import torch

    width = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    return ids.to(model.device), mask.to(model.device)


def _sum(logits: Any, tokens: Sequence[int]) -> float:
    """Sum the log-probabilities of tokens under the first rows of `logits`."""
    import torch

    rows = logits[: len(tokens)].float()
    chosen = rows.gather(1, torch.tensor(tokens, device=rows.device)[:, None]).squeeze(1)
    return checked_score(float((chosen - rows.logsumexp(dim=1)).double().sum()))
