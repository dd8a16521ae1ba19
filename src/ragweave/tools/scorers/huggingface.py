"""Log-probabilities from a Hugging Face transformers model, causal or sequence-to-sequence."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from ragweave.errors import MissingExtraError, ModelError, UsageError
from ragweave.tools.scorers.encode import Encoded, encode, start_token
from ragweave.tools.scorers.local import quiet

Kind = Literal["causal", "seq2seq", "auto"]


class HuggingFaceScorer:
    """Scores continuations with a transformers model, in padded batches.

    Prompt and continuation are tokenised apart and joined as ids, so a pair's score is one
    forward pass over exactly those ids; batching changes it by floating-point noise only (below
    1e-4 in float32). Rows are padded on the right, where neither causal attention nor a masked
    encoder sees the padding. Calls from several threads take turns.

    Example:
        >>> scorer = HuggingFaceScorer("google/flan-t5-base")  # doctest: +SKIP
        >>> scorer.score([("question: capital of France?", "Paris")])  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        kind: Kind = "auto",
        batch_size: int = 16,
        end_token: bool = True,
        max_tokens: int | None = None,
        device: str | None = None,
        dtype: str = "float32",
    ) -> None:
        """Take a model, or the name or folder of one, which loads at the first call.

        Args:
            model: A hub name, a folder, or a loaded `PreTrainedModel` (it is put in eval mode).
            tokenizer: The model's tokenizer; may be left out where `model` is a name or folder.
            kind: What the model is; `auto` reads its configuration.
            batch_size: Pairs a forward pass.
            end_token: Whether the end-of-sequence token counts as part of the continuation (the
                released FILCO code counts it).
            max_tokens: Longest input in tokens; longer prompts lose their beginning. None takes
                the model's own limit. FILCO uses 1,024.
            device: A torch device; None keeps a loaded model where it is and puts a named one on
                CUDA where there is one.
            dtype: Number type to load a named model in; "auto" takes the checkpoint's, which may
                be too coarse for equal scores across batch sizes.

        Raises:
            UsageError: `kind`, `batch_size` or `max_tokens` is out of range, or a loaded model
                came without its tokenizer.
        """
        if kind not in ("causal", "seq2seq", "auto"):
            raise UsageError(f"kind must be causal, seq2seq or auto, not {kind!r}")
        if batch_size < 1:
            raise UsageError(f"batch_size must be at least 1, not {batch_size}")
        if max_tokens is not None and max_tokens < 1:
            raise UsageError(f"max_tokens must be at least 1, not {max_tokens}")
        if tokenizer is None and not isinstance(model, str | Path):
            raise UsageError("a loaded model needs its tokenizer: HuggingFaceScorer(model, tok)")
        self.batch_size = batch_size
        self.end_token = end_token
        self.max_tokens = max_tokens
        self._source, self._tokenizer = model, tokenizer
        self._kind, self._device, self._dtype = kind, device, dtype
        self._model: Any = None
        self._lock = threading.Lock()

    @property
    def causal(self) -> bool:
        """Whether the model is causal; one that `kind="auto"` has to look at loads for it."""
        if self._kind == "auto":
            with self._lock:
                self._load()
        return self._kind == "causal"

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the summed natural-log probability of each continuation given its prompt.

        Raises:
            MissingExtraError: transformers or torch is not installed.
            ModelError: The model can't be loaded, or has no start token where one is needed.
            UsageError: A continuation alone is longer than the model's input.
        """
        if not pairs:
            return []
        with self._lock:
            self._load()
            causal = self._kind == "causal"
            start = start_token(self._model, self._tokenizer, causal=causal)
            rows = [
                encode(
                    self._tokenizer,
                    prompt,
                    continuation,
                    causal=causal,
                    start=start,
                    end_token=self.end_token,
                    limit=self._limit(),
                )
                for prompt, continuation in pairs
            ]
            return self._in_batches(rows, start)

    def _load(self) -> None:
        """Load the model and its tokenizer once; called under the lock."""
        if self._model is not None:
            return
        try:
            import torch
            import transformers
        except ImportError as error:
            raise MissingExtraError("Hugging Face scoring", "hf") from error
        model = self._source
        if isinstance(model, str | Path):
            try:
                config = transformers.AutoConfig.from_pretrained(model)
                seq2seq = self._is_seq2seq(config)
                auto: Any = (
                    transformers.AutoModelForSeq2SeqLM
                    if seq2seq
                    else transformers.AutoModelForCausalLM
                )
                if self._tokenizer is None:
                    self._tokenizer = transformers.AutoTokenizer.from_pretrained(model)
                with quiet():
                    model = auto.from_pretrained(model, dtype=self._dtype)
            except (OSError, ValueError) as error:
                reason = str(error).strip().splitlines()[0]
                raise ModelError(f"can't load the scorer model {self._source}: {reason}") from error
            device = self._device or ("cuda" if torch.cuda.is_available() else "cpu")
        else:
            seq2seq = self._is_seq2seq(model.config)
            device = self._device or model.device
        self._kind = "seq2seq" if seq2seq else "causal"
        self._model = model.to(device).eval()

    def _is_seq2seq(self, config: Any) -> bool:
        """Read the kind from the configuration unless the caller named it."""
        if self._kind == "auto":
            return bool(config.is_encoder_decoder)
        return self._kind == "seq2seq"

    def _limit(self) -> int | None:
        """Return the longest input in tokens, or None where neither model nor caller sets one."""
        own = getattr(self._model.config, "max_position_embeddings", None)
        return min((n for n in (own, self.max_tokens) if n), default=None)

    def _in_batches(self, rows: Sequence[Encoded], start: int | None) -> list[float]:
        """Score the rows, longest first so that a batch holds rows of like length."""
        import torch

        scores = [0.0] * len(rows)
        wanted = [i for i, row in enumerate(rows) if row.continuation]
        wanted.sort(key=lambda i: -len(rows[i].prompt) - len(rows[i].continuation))
        with torch.inference_mode():
            for first in range(0, len(wanted), self.batch_size):
                batch = wanted[first : first + self.batch_size]
                chosen = [rows[i] for i in batch]
                values = self._causal(chosen) if start is None else self._seq2seq(chosen, start)
                for i, value in zip(batch, values, strict=True):
                    scores[i] = value
        return scores

    def _causal(self, rows: Sequence[Encoded]) -> list[float]:
        """Score one batch with a causal model: position t predicts token t + 1."""
        ids, mask = self._padded([row.prompt + row.continuation for row in rows])
        first = min(len(row.prompt) for row in rows) - 1
        keep = ids.shape[1] - first
        # Logits are a vocabulary's worth a token: make none for the prompt where that can be had.
        known = "logits_to_keep" in inspect.signature(self._model.forward).parameters
        extra = {"logits_to_keep": keep} if known else {}
        logits = self._model(input_ids=ids, attention_mask=mask, **extra).logits[:, -keep:]
        return [
            self._sum(logits[i, len(row.prompt) - 1 - first :], row.continuation)
            for i, row in enumerate(rows)
        ]

    def _seq2seq(self, rows: Sequence[Encoded], start: int) -> list[float]:
        """Score one batch with an encoder-decoder model."""
        ids, mask = self._padded([row.prompt for row in rows])
        decoder, decoder_mask = self._padded([[start, *row.continuation[:-1]] for row in rows])
        logits = self._model(
            input_ids=ids,
            attention_mask=mask,
            decoder_input_ids=decoder,
            decoder_attention_mask=decoder_mask,
        ).logits
        return [self._sum(logits[i], row.continuation) for i, row in enumerate(rows)]

    def _padded(self, rows: Sequence[Sequence[int]]) -> tuple[Any, Any]:
        """Return ids and mask, both (rows, longest), padded on the right."""
        import torch

        longest = max(map(len, rows))
        ids = torch.zeros((len(rows), longest), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.tensor(row, dtype=torch.long)
            mask[i, : len(row)] = 1
        return ids.to(self._model.device), mask.to(self._model.device)

    @staticmethod
    def _sum(logits: Any, tokens: Sequence[int]) -> float:
        """Sum the log-probabilities of `tokens` under the first rows of `logits`."""
        import torch

        part = logits[: len(tokens)].float()
        chosen = part.gather(1, torch.tensor(tokens, device=part.device).unsqueeze(1)).squeeze(1)
        return min(0.0, float((chosen - part.logsumexp(dim=1)).double().sum()))
