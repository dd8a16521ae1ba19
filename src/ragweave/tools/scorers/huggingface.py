"""Log-probabilities from a Hugging Face transformers model, causal or sequence-to-sequence.

`find_base_model` finds a model on this machine by path or hub name; it downloads nothing.
`encode` tokenises a prompt and its continuation, and `HuggingFaceScorer` scores such pairs.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import threading
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ragweave.errors import MissingExtraError, ModelError, UsageError
from ragweave.tools.scorers.specs import checked_score


def find_base_model(name: str, near: Path | None = None) -> Path:
    """Return the folder of a base model: a local path, or what the hub's cache holds.

    Nothing is downloaded.

    Args:
        name: A folder's path or a hub name.
        near: A folder that a relative path may start from too.

    Raises:
        ModelError: It is not on this machine; the text says what to download and where to put it.
        MissingExtraError: huggingface_hub, which knows the cache, is not installed.
    """
    places = [Path(name).expanduser(), *([near / name] if near else [])]
    for place in places:
        if (place / "config.json").is_file():
            return place
    try:
        from huggingface_hub import constants, snapshot_download
    except ImportError as error:
        raise MissingExtraError(f"The model {name}", "hf") from error
    try:
        found = Path(snapshot_download(name, local_files_only=True))
    except (OSError, ValueError) as error:
        raise _missing(name, Path(constants.HF_HUB_CACHE)) from error
    if not (found / "config.json").is_file():
        raise _missing(name, Path(constants.HF_HUB_CACHE))
    return found


def _missing(name: str, cache: Path) -> ModelError:
    if name.startswith(("/", ".", "~")) or name.count("/") > 1:
        return ModelError(f"base model {name} not found: there is no such folder with a config.json")
    return ModelError(
        f"the base model {name} is not on this machine: `hf download {name}` puts it into {cache} "
        f"(HF_HOME moves that), or give the path of a folder with its config.json, tokenizer and "
        f"safetensors"
    )


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' bars, and its and sentence-transformers' warnings, off the screen."""
    theirs: Any = import_module("transformers.utils.logging")
    other = logging.getLogger("sentence_transformers")
    shown, level, other_level = (
        theirs.is_progress_bar_enabled(),
        theirs.get_verbosity(),
        other.level,
    )
    theirs.disable_progress_bar()
    theirs.set_verbosity_error()
    other.setLevel(logging.ERROR)
    try:
        yield
    finally:
        other.setLevel(other_level)
        theirs.set_verbosity(level)
        if shown:
            theirs.enable_progress_bar()


class Encoded(NamedTuple):
    """Token ids of one pair; a causal prompt has at least one token."""

    prompt: list[int]
    continuation: list[int]


def start_token(model: Any, tokenizer: Any, *, causal: bool) -> int | None:
    """Return the token that a decoder starts from; None for a causal model, which needs none.

    Raises:
        ModelError: An encoder-decoder model names no start token.
    """
    if causal:
        return None
    for holder in (getattr(model, "generation_config", None), model.config):
        found = getattr(holder, "decoder_start_token_id", None)
        if found is not None:
            return int(found)
    if tokenizer.bos_token_id is None:
        raise ModelError(f"{type(model).__name__} has no decoder start token, so it can't be used for scoring")
    return int(tokenizer.bos_token_id)


def encode(
    tokenizer: Any,
    prompt: str,
    continuation: str,
    *,
    causal: bool,
    start: int | None,
    end_token: bool,
    limit: int | None,
) -> Encoded:
    """Tokenise a pair, the two texts apart.

    Args:
        tokenizer: A transformers tokenizer.
        prompt: The text before it; it gets the tokenizer's own special tokens.
        continuation: What is scored; it gets none but, with `end_token`, the end token.
        causal: Whether both form one sequence.
        start: The decoder's start token (encoder-decoder models).
        end_token: Whether to score the end-of-sequence token too.
        limit: Longest sequence in tokens; the prompt loses its beginning to fit.

    Raises:
        UsageError: The continuation alone does not fit.
        ModelError: An empty prompt and no special token to put in its place.
    """
    head = list(tokenizer(prompt, verbose=False)["input_ids"])
    tail = list(tokenizer(continuation, add_special_tokens=False, verbose=False)["input_ids"])
    eos = tokenizer.eos_token_id
    if end_token and eos is not None:
        tail.append(eos)
    if causal:
        # A prompt that ends in the end token would make the continuation a new text.
        while len(head) > 1 and head[-1] == eos:
            head.pop()
    if not head:
        head = [_any_special(tokenizer, start)]
    if limit is not None:
        head = _cut(head, tokenizer.bos_token_id, limit - (len(tail) if causal else 0))
        if len(tail) > limit or not head:
            raise UsageError(f"the text to score has {len(tail)} tokens, but the model takes {limit}: shorten it")
    return Encoded(head, tail)


def _any_special(tokenizer: Any, start: int | None) -> int:
    """Return a token to stand for an empty prompt."""
    for found in (tokenizer.bos_token_id, tokenizer.eos_token_id, start):
        if found is not None:
            return int(found)
    raise ModelError("the tokenizer has no special token to stand for an empty prompt")


def _cut(head: list[int], bos: int | None, room: int) -> list[int]:
    """Drop tokens at the beginning of `head`, behind a begin-of-sequence token."""
    if len(head) <= room:
        return head
    if room <= 0:
        return []
    if bos is not None and head[0] == bos:
        return [bos, *head[len(head) - room + 1 :]]
    return head[-room:]


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
    def model_name(self) -> str:
        """The name or folder that was given, or that a loaded model was loaded by."""
        given = self._source
        return str(given if isinstance(given, str | Path) else getattr(given, "name_or_path", ""))

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
                auto: Any = transformers.AutoModelForSeq2SeqLM if seq2seq else transformers.AutoModelForCausalLM
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
        return [self._sum(logits[i, len(row.prompt) - 1 - first :], row.continuation) for i, row in enumerate(rows)]

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
        return checked_score(float((chosen - part.logsumexp(dim=1)).double().sum()))
