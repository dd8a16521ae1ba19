"""Context filters by an encoder: RECOMP's extractive compressor, and Provence's pruning.

`RecompFilter` ranks sentences by a bi-encoder. Source: Xu et al. 2024 (RECOMP: Improving
Retrieval-Augmented LMs with Compression and Selective Augmentation), section 3.1: question and
sentences are encoded apart, and the sentences with the highest inner products are kept, one for
NQ and TriviaQA, two for HotpotQA. The paper trains Contriever for it; here any embedding
model will do (the packaged MiniLM without torch), and vectors have unit length.

`ProvenceFilter` labels tokens. Source: Chirkova et al. 2025 (Provence: efficient and robust context
pruning for retrieval-augmented generation), section 3: question and passage are read together, each
token gets a probability of being relevant, and a sentence stays where more than half of its tokens
are above the threshold, 0.1 by default: as many as it takes, also none. The released checkpoints
bring code of their own, which is not run here: they are refused. A checkpoint that transformers
knows as a token classifier of two labels, the second of which means "keep", works. The paper's
unified model also reranks in the same pass, by a head of its own; a token classifier has none, so
with the option `rerank` a passage's rank is that of its best sentence's mean probability.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from langchain_core.documents import Document

from ragweave.errors import MissingExtraError, UsageError
from ragweave.state.passages import with_id
from ragweave.tools.files import parse_json
from ragweave.tools.filters.oracles import checked_top, top_spans
from ragweave.tools.filters.spans import Granularity, Span, spans_of, with_score
from ragweave.tools.retrieval.reranking import BiEncoderScorer, PairScorer

PROVENCE_THRESHOLD = 0.1
"""Probability above which a token counts as relevant."""
_LONGEST = 512
"""Tokens that a pruning model reads at once, question included."""
_EVERYTHING = -2.0
"""Below any cosine."""
_LOCK = threading.Lock()


@lru_cache(maxsize=2)
def _bi_encoder(spec: str) -> PairScorer:
    return BiEncoderScorer(spec)


class RecompFilter:
    """Keeps the sentences that a bi-encoder finds nearest to the question (RECOMP, extractive)."""

    def __init__(
        self,
        encoder: str | PairScorer = "minilm",
        threshold: float | None = None,
        top: int | None = 1,
        granularity: Granularity = "sentence",
    ) -> None:
        """Set the encoder; a named one is loaded at first use.

        Args:
            encoder: `minilm`, a local path, a hub name (`?query=…&passage=…` for prefixes), or an
                object that scores pairs.
            threshold: Cosine that a sentence must exceed; None: none is too far.
            top: How many sentences to keep; None: all above the threshold.
            granularity: Sentences, or whole passages.
        """
        self.encoder, self.threshold, self.top = encoder, threshold, checked_top(top)
        self.granularity = granularity

    def keep(
        self,
        question: str,
        passages: Sequence[Document],
        *,
        answers: Sequence[str] | None = None,  # noqa: ARG002 - the protocol's
    ) -> list[Span]:
        """Return the nearest sentences, best first."""
        spans = spans_of(passages, self.granularity)
        if not spans:
            return []
        with _LOCK:  # tokenizers and most models are not safe under threads
            scorer = _bi_encoder(self.encoder) if isinstance(self.encoder, str) else self.encoder
            cosines = scorer.predict([(question, span["text"]) for span in spans])
        scored = [with_score(span, float(one)) for span, one in zip(spans, cosines, strict=True)]
        least = _EVERYTHING if self.threshold is None else self.threshold
        return top_spans(scored, least, self.top)


class ProvenceFilter:
    """Keeps the sentences most of whose tokens a pruning model finds relevant (Provence)."""

    def __init__(self, checkpoint: str, threshold: float | None = None) -> None:
        """Check the checkpoint; it is loaded at first use.

        Args:
            checkpoint: Local path, or hub name of a checkpoint that is in the cache already.
            threshold: Probability that a token must exceed; None: 0.1.

        Raises:
            UsageError: There is no such checkpoint here, or its own code would have to run.
        """
        self.folder = checked_checkpoint(checkpoint)
        self.threshold = PROVENCE_THRESHOLD if threshold is None else threshold

    def keep(
        self,
        question: str,
        passages: Sequence[Document],
        *,
        answers: Sequence[str] | None = None,  # noqa: ARG002 - the protocol's
    ) -> list[Span]:
        """Return the sentences kept, those of the highest probabilities first."""
        spans = spans_of(passages)
        texts = {str(doc.id): doc.page_content for doc in map(with_id, passages)}
        with _LOCK:
            tokens = {name: _relevance(self.folder, question, text) for name, text in texts.items()}
        kept = [with_score(span, _mean(tokens[span["passage_id"]], span)) for span in spans]
        return sorted(
            (one for one in kept if _most(tokens[one["passage_id"]], one, self.threshold)),
            key=lambda one: -one["score"],
        )


Token = tuple[int, int, float]
"""First character of a token, the one behind its last, and its probability of being relevant."""


def _within(tokens: Sequence[Token], span: Span) -> list[float]:
    return [one for start, end, one in tokens if start < span["end"] and end > span["start"]]


def _mean(tokens: Sequence[Token], span: Span) -> float:
    found = _within(tokens, span)
    return sum(found) / len(found) if found else 0.0


def _most(tokens: Sequence[Token], span: Span, threshold: float) -> bool:
    found = _within(tokens, span)
    return 2 * sum(one > threshold for one in found) > len(found)


def checked_checkpoint(checkpoint: str) -> str:
    """Return the folder of a pruning checkpoint.

    Raises:
        UsageError: None is named, there is no such checkpoint on this machine, or it needs code
            of its own.
        MissingExtraError: transformers is not installed.
    """
    if not checkpoint:
        raise UsageError(
            "the provence filter needs a checkpoint: encoder=PATH of a token classifier that says "
            "which tokens to keep"
        )
    if find_spec("transformers") is None or find_spec("torch") is None:
        raise MissingExtraError("The provence filter", "chroma")
    config = _config_of(checkpoint)
    if config is None:
        raise UsageError(
            f"no pruning checkpoint {checkpoint!r} on this machine: give the path of its folder, "
            "or download it first"
        )
    settings = parse_json(config.read_text("utf-8"))
    if settings.get("auto_map") or "Provence" in str(settings.get("architectures")):
        raise UsageError(
            f"{checkpoint}: needs code that comes with it, and ragweave runs no code of a "
            "checkpoint: convert it to a token classification model of transformers"
        )
    if not any("TokenClassification" in str(one) for one in settings.get("architectures") or ()):
        raise UsageError(f"{checkpoint}: is no token classifier, so it can't say what to keep")
    return str(config.parent)


def _config_of(checkpoint: str) -> Path | None:
    local = Path(checkpoint) / "config.json"
    if local.is_file():
        return local
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(checkpoint, "config.json")
    except HFValidationError:
        return None
    return Path(found) if isinstance(found, str) else None


@lru_cache(maxsize=2)
def _loaded(folder: str) -> tuple[Any, Any]:
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModelForTokenClassification.from_pretrained(folder, local_files_only=True)
    if model.config.num_labels != 2:
        raise UsageError(f"{folder}: has {model.config.num_labels} labels, not two: drop and keep")
    return tokenizer, model.eval()


def _relevance(folder: str, question: str, text: str) -> list[Token]:
    """Return the tokens of a text with their probabilities, read window by window."""
    import torch

    tokenizer, model = _loaded(folder)
    limit = min(_LONGEST, tokenizer.model_max_length)
    asked = len(tokenizer(question, add_special_tokens=False)["input_ids"])
    if asked > limit // 2:
        raise UsageError(f"the question takes {asked} tokens, and {limit // 2} fit the pruner")
    encoded = tokenizer(
        question,
        text,
        truncation="only_second",
        max_length=limit,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        padding=True,
        return_tensors="pt",
    )
    offsets = encoded.pop("offset_mapping").tolist()
    encoded.pop("overflow_to_sample_mapping", None)
    with torch.inference_mode():
        keep = torch.softmax(model(**encoded).logits.float(), dim=-1)[..., 1].tolist()
    return [
        (start, end, float(keep[row][at]))
        for row, window in enumerate(offsets)
        for at, (start, end) in enumerate(window)
        if encoded.sequence_ids(row)[at] == 1 and end > start
    ]
