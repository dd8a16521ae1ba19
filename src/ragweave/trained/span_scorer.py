"""The span encoder: a filter that reads a passage once and scores every sentence of it (ours).

Cutting sentences into windows: whole sentences, each scored in exactly one window.

What a span encoder reads: `[CLS] question [SEP] title : sentence sentence … [SEP]`.

A span encoder's folder: weights (safetensors), the encoder's configuration, the tokenizer.

Scoring sentences with a trained span encoder.
"""

from __future__ import annotations

import math
import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ragweave.errors import MissingExtraError, ModelError, UsageError
from ragweave.tools.filters.spans import Span, scored
from ragweave.tools.scorers.huggingface import quiet
from ragweave.trained.encoders import WEIGHTS, check_encoder, in_short, load_tokenizer, read_encoder
from ragweave.trained.pairs import token_limit
from ragweave.trained.weights import best_device

if TYPE_CHECKING:
    from ragweave.trained.span_network import SpanEncoder


class Cut(NamedTuple):
    """The sentences of one window: those from `start` to `end` (exclusive) are scored in it."""

    start: int
    end: int
    lead: bool
    """Whether the sentence before stands ahead of them, unscored, so that pronouns have a noun."""


def cuts(sizes: Sequence[int], room: int) -> Iterator[Cut]:
    """Yield the windows of a passage, in order.

    A window takes sentences while they fit; it is led by the sentence before it where that takes
    less than half the room and leaves room for the first that is scored.

    Args:
        sizes: Tokens of each sentence, at least 1 and at most `room`.
        room: Tokens that a window has for sentences.
    """
    start = 0
    while start < len(sizes):
        before = sizes[start - 1] if start else 0
        lead = 0 < before * 2 < room and before + sizes[start] <= room
        used, end = before if lead else 0, start
        while end < len(sizes) and used + sizes[end] <= room:
            used += sizes[end]
            end += 1
        yield Cut(start, end, lead)
        start = end


NOBODY, ASKED = -1, -2
"""Owners of tokens that belong to no scored sentence, and of the question's."""

FEATURES = 3
"""Numbers a sentence beside its tokens, see `features`."""

_QUESTION, _TITLE, _LEAST = 64, 24, 16
_WORDS = re.compile(r"\w+")


class Text(NamedTuple):
    """A passage in sentences."""

    title: str
    sentences: Sequence[str]


class Sheet(NamedTuple):
    """A question and its passages; their sentences are numbered through, from 0."""

    question: str
    passages: Sequence[Text]


class Window(NamedTuple):
    """One input of the encoder."""

    ids: list[int]
    owners: list[int]
    """The sentence that each token belongs to, or `NOBODY`, or `ASKED`."""
    second: int
    """Where title and sentences begin."""


class Read(NamedTuple):
    """A sheet as the encoder reads it."""

    windows: list[Window]
    features: list[list[float]]
    """(sentences, `FEATURES`)."""

    @property
    def length(self) -> int:
        """Tokens of the longest window."""
        return max(len(one.ids) for one in self.windows)


class Reader:
    """Turns texts into windows. Not safe under threads: fast tokenizers keep state."""

    def __init__(self, tokenizer: Any, limit: int) -> None:
        """Take a fast tokenizer and the most tokens of a window.

        Raises:
            UsageError: The limit is below 16, or the tokenizer marks no beginning and end.
        """
        if limit < _LEAST:
            raise UsageError(f"max_input must be at least {_LEAST} for a span-encoder, not {limit}")
        if tokenizer.cls_token_id is None or tokenizer.sep_token_id is None:
            raise UsageError("the base's tokenizer has no marks for beginning and end of a text")
        self.tokenizer, self.limit = tokenizer, limit
        self._question, self._title = min(_QUESTION, limit // 4), min(_TITLE, limit // 10)

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, without marks."""
        if not texts:
            return []
        found = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        return [list(ids) for ids in found]

    def read(self, sheet: Sheet) -> Read:
        """Read a question with its passages; at least one of them has a sentence."""
        windows: list[Window] = []
        numbers: list[list[float]] = []
        question = self.tokens([sheet.question])[0][: self._question]
        for title, sentences in sheet.passages:
            windows += self._windows(question, title, sentences, len(numbers))
            numbers += (features(sheet.question, one, at) for at, one in enumerate(sentences))
        return Read(windows, numbers)

    def _windows(
        self, question: list[int], title: str, sentences: Sequence[str], first: int
    ) -> Iterator[Window]:
        begin, end = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        named = self.tokens([f"{title} :"])[0][-self._title :] if title.strip() else []
        room = self.limit - len(question) - len(named) - 3
        pieces = [ids[:room] or [self._filler()] for ids in self.tokens(sentences)]
        head, front = [begin, *question, end], [NOBODY, *[ASKED] * len(question), NOBODY]
        for cut in cuts([len(one) for one in pieces], room):
            before = pieces[cut.start - 1] if cut.lead else []
            ids = [*head, *named, *before]
            owners = [*front, *[NOBODY] * (len(named) + len(before))]
            for at in range(cut.start, cut.end):
                ids += pieces[at]
                owners += [first + at] * len(pieces[at])
            yield Window([*ids, end], [*owners, NOBODY], len(head))

    def _filler(self) -> int:
        """Return what stands for a sentence that has no tokens."""
        known = self.tokenizer.unk_token_id
        return int(self.tokenizer.sep_token_id if known is None else known)


def features(question: str, sentence: str, place: int) -> list[float]:
    """Return word F1 with the question, share of its words found, and 1 / (1 + place)."""
    asked, said = (Counter(_WORDS.findall(one.lower())) for one in (question, sentence))
    common, total = (asked & said).total(), asked.total() + said.total()
    return [2 * common / max(1, total), common / max(1, asked.total()), 1 / (1 + place)]


KIND = "span-encoder"


def new_model(base: Path, dropout: float) -> SpanEncoder:
    """Return an encoder's weights under a new head.

    Raises:
        MissingExtraError: torch or transformers is not installed.
        ModelError: The weights can't be read or are not whole.
    """
    encoder = read_encoder(base, "AutoModel", new="pooler")

    from ragweave.trained.span_network import SpanEncoder

    return SpanEncoder(encoder, dropout)


def read_model(folder: Path, dropout: float = 0.0) -> SpanEncoder:
    """Return a trained span encoder; nothing in the folder is run.

    Raises:
        UsageError: Something in the folder could run, or there are no weights.
        MissingExtraError: torch or transformers is not installed.
        ModelError: The weights can't be read, or are not a span encoder's.
    """
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
        from transformers import AutoConfig, AutoModel

        from ragweave.trained.span_network import SpanEncoder
    except ImportError as error:
        raise MissingExtraError("A trained span encoder", "hf") from error
    check_encoder(folder)
    with quiet():
        try:
            config = AutoConfig.from_pretrained(
                str(folder), trust_remote_code=False, local_files_only=True
            )
            architecture: Any = AutoModel
            model = SpanEncoder(architecture.from_config(config, trust_remote_code=False), dropout)
            model.load_state_dict(load_file(folder / WEIGHTS))
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            raise ModelError(f"{folder}: its weights cannot be read ({in_short(error)})") from error
    return model.float().eval()


def write_model(folder: Path, model: SpanEncoder, tokenizer: Any) -> None:
    """Write a span encoder; the tokenizer's `model_max_length` is the most tokens of a window."""
    from safetensors.torch import save_model

    model.encoder.config.save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
    save_model(model, str(folder / WEIGHTS))


_WINDOWS = 16
"""Windows computed at once."""


class SpanScorer:
    """Scores the sentences of passages; calls from several threads take turns."""

    def __init__(self, tokenizer: Any, model: SpanEncoder) -> None:
        """Take a fast tokenizer, whose `model_max_length` is the limit of a window, and a network."""
        self._tokenizer, self._model = tokenizer, model
        self._reader = Reader(tokenizer, token_limit(tokenizer))
        self._lock = threading.RLock()

    def logits(self, sheets: Sequence[Sheet]) -> list[list[float]]:
        """Return the logits of each sheet's sentences, in order.

        Their softmax over a sheet gives each sentence's share.
        """
        with self._lock:
            return self.logits_of([self._reader.read(one) for one in sheets])

    def logits_of(self, reads: Sequence[Read]) -> list[list[float]]:
        """Return the logits of sheets that were read before."""
        import torch

        from ragweave.trained.span_network import batch_of, groups_of

        found: list[list[float]] = [[] for _ in reads]
        filler = self._tokenizer.pad_token_id or 0
        with self._lock, torch.inference_mode():
            self._model.eval()
            for group in groups_of(reads, _WINDOWS):
                some = [reads[at] for at in group]
                scores = self._model(batch_of(some, filler)).sentences.float().cpu()
                parts = scores.split([len(one.features) for one in some])
                for at, part in zip(group, parts, strict=True):
                    found[at] = part.tolist()
        return found


def load_span_scorer(folder: str | Path, device: str = "auto") -> SpanScorer:
    """Load a trained span encoder; nothing in the folder is run.

    Args:
        folder: The part's folder.
        device: `auto` (CUDA where there is one), `cpu`, `cuda`, `cuda:1`.

    Raises:
        UsageError: Something in the folder could run, or weights or device are missing.
        MissingExtraError: What it runs with is not installed.
        ModelError: Weights or tokenizer can't be read.
    """
    root = Path(folder)
    model = read_model(root)
    import torch

    place = best_device() if device == "auto" else device
    try:
        model.to(torch.device(place))
    except (RuntimeError, AssertionError) as error:
        message = " ".join(str(error).split())[:200]
        raise UsageError(f"device {device!r} is not to be had ({message})") from error
    return SpanScorer(load_tokenizer(root), model)


def relative(logits: Sequence[float]) -> list[float]:
    """Return each sentence's share over the best one's, in (0, 1]."""
    most = max(logits, default=0.0)
    return [math.exp(one - most) for one in logits]


def chosen(
    spans: Sequence[Span], logits: Sequence[float], threshold: float, top: int | None
) -> list[Span]:
    """Return the spans whose share is at least `threshold` times the best one's, best first.

    The best is always kept; of equal ones the first stands first. A span's score is its share.
    """
    shares = relative(logits)
    total = sum(shares)
    order = sorted(range(len(spans)), key=lambda i: -shares[i])
    return [scored(spans[i], shares[i] / total) for i in order if shares[i] >= threshold][:top]
