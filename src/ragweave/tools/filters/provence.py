"""The context filter that labels tokens: Provence's pruning, and its reranking in the same pass.

Source: Chirkova et al. 2025 (Provence: efficient and robust context pruning for retrieval-augmented
generation), section 3: question and passage are read together, each token gets a probability of
being relevant, and a sentence stays where more than half of its tokens are above the threshold, 0.1
by default: as many as it takes, also none. Ports of the released code say that it asks for a share
above the threshold itself, not above one half; `share` sets it.

Two kinds of checkpoint work, and the code that one brings is run for neither:

* The paper's unified model as it is released (`naver/provence-reranker-debertav3-v1`): a DeBERTa
  with one head for tokens and one, at the first token, for the passage's relevance. Names of
  weights, heads and input follow the released training code (BERGEN, `scripts/provence`); the
  question is put to it without case and punctuation, as its own code is said to do. That code
  reorders nothing unless it is told to (`reorder`), and then by the ranking head's score: so does
  the option `rerank` here. A passage longer than a window has its best window's score.
* A token classifier of transformers with two labels, the second of which means "keep". It has no
  ranking head: with `rerank`, a passage's rank is that of its best sentence's mean probability.
"""

from __future__ import annotations

import string
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.documents import Document

from ragweave.errors import MissingExtraError, PromptTooLongError, UsageError
from ragweave.state.passages import with_id
from ragweave.tools.files import parse_json
from ragweave.tools.filters.spans import Granularity, Span, spans_of, with_score

PROVENCE_THRESHOLD = 0.1
"""Probability above which a token counts as relevant."""
PROVENCE_SHARE = 0.5
"""Share of a sentence's tokens that those which count must exceed (section 3)."""
_LONGEST = 512
"""Tokens that a pruning model reads at once, question included."""
_RELEASED = "Provence"
"""The architecture that the released checkpoint names."""
_LOCK = threading.Lock()


class ProvenceFilter:
    """Keeps the sentences most of whose tokens a pruning model finds relevant (Provence)."""

    def __init__(
        self,
        checkpoint: str,
        threshold: float | None = None,
        granularity: Granularity = "sentence",
        *,
        share: float = PROVENCE_SHARE,
    ) -> None:
        """Check the checkpoint; it is loaded at first use.

        Args:
            checkpoint: Local path, or hub name of a checkpoint that is in the cache already.
            threshold: Probability that a token must exceed, 0 to 1; None: 0.1.
            granularity: Sentences, or whole passages: those of which a sentence would be kept.
            share: Of a sentence's tokens, the share that those above the threshold must exceed,
                0 to 1: one half in the paper, in the released code the threshold, as ports have it.

        Raises:
            UsageError: There is no such checkpoint here, its own code would have to run, or a
                number is out of its range.
        """
        self.folder = checked_checkpoint(checkpoint)
        self.threshold = PROVENCE_THRESHOLD if threshold is None else threshold
        self.granularity, self.share = granularity, share
        for name in ("threshold", "share"):
            if not 0 <= getattr(self, name) <= 1:
                value = getattr(self, name)
                raise UsageError(f"{name} must be between 0 and 1 for provence, not {value}")

    def keep(
        self,
        question: str,
        passages: Sequence[Document],
        *,
        answers: Sequence[str] | None = None,  # noqa: ARG002 - the protocol's
    ) -> list[Span]:
        """Return what is kept, that of the highest probabilities first.

        Raises:
            PromptTooLongError: The question alone fills half of what the model reads at once.
        """
        wanted = spans_of(passages, self.granularity)
        texts = {str(doc.id): doc.page_content for doc in map(with_id, passages)}
        with _LOCK:  # tokenizers and most models are not safe under threads
            pruner = _loaded(self.folder)
            read = {name: pruner.read(question, text) for name, text in texts.items()}
        kept = [
            _scored(span, one)
            for span in spans_of(passages)
            if _most(one := read[span["passage_id"]], span, self.threshold, self.share)
        ]
        kept.sort(key=lambda span: -span["score"])
        return kept if self.granularity == "sentence" else _whole(kept, wanted)


class Token(NamedTuple):
    """A token of a passage."""

    start: int
    """Its first character."""
    end: int
    """The one behind its last."""
    keep: float
    """Its probability of being relevant."""


@dataclass(frozen=True)
class ReadPassage:
    """A passage as a pruning model reads it beside a question."""

    tokens: Sequence[Token]
    relevance: float | None = None
    """What the ranking head gives, any number; None: the checkpoint has none."""

    def within(self, span: Span) -> list[float]:
        """Return the probabilities of a span's tokens."""
        return [
            one.keep for one in self.tokens if one.start < span["end"] and one.end > span["start"]
        ]


def _most(read: ReadPassage, span: Span, threshold: float, share: float) -> bool:
    found = read.within(span)
    return sum(one > threshold for one in found) > share * len(found)


def _whole(kept: Sequence[Span], passages: Sequence[Span]) -> list[Span]:
    """Return the passages of which a sentence is kept, each with its best one's score."""
    best: dict[str, Span] = {}
    for span in kept:
        best.setdefault(span["passage_id"], span)
    places = {one["passage_id"]: one for one in passages}
    found = [(one, places[name]) for name, one in best.items()]
    return [
        {**one, "start": whole["start"], "end": whole["end"], "text": whole["text"]}
        for one, whole in found
    ]


def _scored(span: Span, read: ReadPassage) -> Span:
    found = read.within(span)
    scored = with_score(span, sum(found) / len(found) if found else 0.0)
    return scored if read.relevance is None else {**scored, "passage_score": read.relevance}


def checked_checkpoint(checkpoint: str) -> str:
    """Return the folder of a pruning checkpoint.

    Raises:
        UsageError: None is named, there is no such checkpoint on this machine, or it needs code
            of its own.
        MissingExtraError: transformers is not installed.
    """
    if not checkpoint:
        raise UsageError(
            "the provence filter needs a checkpoint: encoder=PATH of the released model, or of a "
            "token classifier that says which tokens to keep"
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
    known = settings.get("architectures") or ()
    if _RELEASED in known:
        return str(config.parent)
    if settings.get("auto_map") or any(_RELEASED in str(one) for one in known):
        raise UsageError(
            f"{checkpoint}: needs code that comes with it, and ragweave runs no code of a "
            "checkpoint: convert it to a token classification model of transformers"
        )
    if not any("TokenClassification" in str(one) for one in known):
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


@dataclass(frozen=True)
class Pruner:
    """A pruning model with its tokenizer."""

    tokenizer: Any
    model: Any
    """Maps an encoded batch to logits of two labels a token, and to ranking scores or None."""
    plain_question: bool
    """Whether questions lose case and punctuation."""

    def read(self, question: str, text: str) -> ReadPassage:
        """Read a passage beside a question, window by window.

        Raises:
            PromptTooLongError: The question alone fills half of what the model reads at once.
        """
        import torch

        if self.plain_question:
            question = without_case_and_punctuation(question)
        encoded = self._encoded(question, text)
        offsets = encoded.pop("offset_mapping").tolist()
        encoded.pop("overflow_to_sample_mapping", None)
        with torch.inference_mode():
            logits, ranking = self.model(encoded)
            keep = torch.softmax(logits.float(), dim=-1)[..., 1].tolist()
        tokens = [
            Token(start, end, float(keep[row][at]))
            for row, window in enumerate(offsets)
            for at, (start, end) in enumerate(window)
            if encoded.sequence_ids(row)[at] == 1 and end > start
        ]
        return ReadPassage(tokens, None if ranking is None else float(ranking.max()))

    def _encoded(self, question: str, text: str) -> Any:
        limit = min(_LONGEST, self.tokenizer.model_max_length)
        asked = len(self.tokenizer(question, add_special_tokens=False)["input_ids"])
        if asked > limit // 2:
            raise PromptTooLongError(
                f"the question takes {asked} tokens, and {limit // 2} fit the pruner"
            )
        return self.tokenizer(
            question,
            text,
            truncation="only_second",
            max_length=limit,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            padding=True,
            return_tensors="pt",
        )


def without_case_and_punctuation(question: str) -> str:
    """Return a question as the released model was trained on it: lower case, words alone."""
    table = str.maketrans("", "", string.punctuation)
    return " ".join(question.lower().translate(table).split())


@lru_cache(maxsize=2)
def _loaded(folder: str) -> Pruner:
    settings = parse_json((Path(folder) / "config.json").read_text("utf-8"))
    return _two_headed(folder) if _RELEASED in settings["architectures"] else _classifier(folder)


def _two_headed(folder: str) -> Pruner:
    from transformers import PreTrainedTokenizerFast

    from ragweave.tools.filters.provence_network import load_network

    # the checkpoint's configuration names a model that AutoTokenizer does not know
    tokenizer: Any = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
    return Pruner(tokenizer, load_network(Path(folder)), plain_question=True)


def _classifier(folder: str) -> Pruner:
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model: Any = AutoModelForTokenClassification.from_pretrained(folder, local_files_only=True)
    if model.config.num_labels != 2:
        raise UsageError(f"{folder}: has {model.config.num_labels} labels, not two: drop and keep")
    model.eval()
    return Pruner(tokenizer, lambda batch: (model(**batch).logits, None), plain_question=False)
