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


<<<<<<< HEAD
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

=======
class _Pair(NamedTuple):
>>>>>>> train
    prompt: list[int]
    continuation: list[int]


<<<<<<< HEAD
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


=======
>>>>>>> train
class HuggingFaceScorer:
    """Scores continuations with a transformers model, in padded batches.

    Prompt and continuation are tokenised apart and joined as ids, so that a pair's score is one forward pass over
    exactly those ids; batching changes it by floating-point noise only (below 1e-4 in float32). Threads take turns.

    Example:
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
<<<<<<< HEAD
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
=======
            model = self._loaded()
            rows = [self._encoded(*pair) for pair in pairs]
            wanted = [at for at, row in enumerate(rows) if row.continuation]
            wanted.sort(key=lambda at: -len(rows[at].prompt) - len(rows[at].continuation))
            scores = [0.0] * len(rows)
>>>>>>> train
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
<<<<<<< HEAD
        keep = ids.shape[1] - first
        # Logits are a vocabulary's worth a token: make none for the prompt where that can be had.
        known = "logits_to_keep" in inspect.signature(self._model.forward).parameters
        extra = {"logits_to_keep": keep} if known else {}
        logits = self._model(input_ids=ids, attention_mask=mask, **extra).logits[:, -keep:]
        return [self._sum(logits[i, len(row.prompt) - 1 - first :], row.continuation) for i, row in enumerate(rows)]
=======
        kept = ids.shape[1] - first
        # logits are as long as the vocabulary: none for the prompt, where the model can leave them out
        more = {"logits_to_keep": kept} if "logits_to_keep" in inspect.signature(model.forward).parameters else {}
        logits = model(input_ids=ids, attention_mask=mask, **more).logits[:, -kept:]
        starts = [len(row.prompt) - 1 - first for row in rows]
        return [_sum(one[start:], row.continuation) for one, start, row in zip(logits, starts, rows, strict=True)]
>>>>>>> train


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
