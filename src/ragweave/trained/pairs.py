"""Trained cross-encoders: a pair of texts in, a probability out.

A judge reads (question, draft answer); a filter reads (question, the sentence in its passage). For
a filter the second text is `title | …left context [ sentence ] right context…` (`SentenceForm`).
The context is trimmed evenly around the sentence until both texts fit into the model; the sentence
itself is never cut. Training and use share this form.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragweave.errors import UsageError
from ragweave.tools.filters import Span
from ragweave.tools.models.tasks import TaskPassage
from ragweave.trained.encoders import ONNX, Run, check_encoder, load_tokenizer, onnx_run, torch_run

TokenSpans = Callable[[str], Sequence[tuple[int, int]]]
"""Gives the character offsets of a text's tokens, in order."""

OPEN, CLOSE = "[ ", " ]"
"""Marks around the sentence; brackets in question, title and passage become round ones."""

_CUT = "…"
_ROUND = str.maketrans("[]", "()")
_QUESTION_SHARE = 3
"""A question may take a third of what the model reads …"""
_TITLE_SHARE = 8
"""… and a title an eighth."""
_LONGEST = 16
"""Characters a token: context further away could not fit, and is not even tokenised."""


class SentenceForm:
    """Makes the pairs of texts that a filter reads."""

    def __init__(self, tokens: TokenSpans, limit: int) -> None:
        """Set how texts are measured.

        Args:
            tokens: The model's tokenizer, without special tokens.
            limit: Most tokens of the two texts together, special tokens not counted.
        """
        self._tokens, self._limit = tokens, limit

    def pair(self, question: str, title: str, text: str, start: int, end: int) -> tuple[str, str]:
        """Return the question and the sentence `text[start:end]` in its passage.

        The pair fits into the limit unless question and sentence alone do not: then it is the
        sentence without any context.
        """
        asked = self._head(_plain(question), self._limit // _QUESTION_SHARE)
        named = self._head(_plain(title), self._limit // _TITLE_SHARE)
        room = self._limit - self._count(asked)
        marked = f"{OPEN}{_plain(text[start:end])}{CLOSE}"
        reach = self._limit * _LONGEST
        left = _plain(text[max(0, start - reach) : start])
        right = _plain(text[end : end + reach])
        for front in (f"{named} | ", "") if named else ("",):
            free = room - self._count(f"{front}{marked}")
            if free >= 0:
                return asked, self._around(front, marked, left, right, room)
        return asked, marked

    def pairs(self, question: str, passages: Iterable[TaskPassage], spans: Iterable[Span]) -> list[tuple[str, str]]:
        """Return a pair for each span, in order; each span's passage must be among `passages`."""
        known = {one["id"]: one for one in passages}
        made = []
        for span in spans:
            passage = known[span["passage_id"]]
            made.append(self.pair(question, passage["title"], passage["text"], span["start"], span["end"]))
        return made

    def _around(self, front: str, marked: str, left: str, right: str, room: int) -> str:
        """Return the sentence with as much context as fits, as much left of it as right of it."""
        free = room - self._count(f"{front}{marked}")
        while free > 0:
            made = self._joined(front, marked, left, right, free)
            over = self._count(made) - room
            if over <= 0:
                return made
            free -= over
        return f"{front}{marked}"

    def _joined(self, front: str, marked: str, left: str, right: str, free: int) -> str:
        before, after = self._tokens(left), self._tokens(right)
        share = free // 2
        takes_left = min(len(before), max(share, free - len(after)))
        takes_right = min(len(after), free - takes_left)
        return f"{front}{_tail(left, before, takes_left)}{marked}{_lead(right, after, takes_right)}"

    def _head(self, text: str, most: int) -> str:
        """Return the beginning of a text, `most` tokens of it."""
        spans = self._tokens(text)
        return text if len(spans) <= most else text[: spans[most][0]].rstrip()

    def _count(self, text: str) -> int:
        return len(self._tokens(text))


def _plain(text: str) -> str:
    """Fold white space and replace what could be mistaken for a mark."""
    return " ".join(text.translate(_ROUND).split())


def _tail(text: str, spans: Sequence[tuple[int, int]], take: int) -> str:
    """Return the last tokens of the left context, from the first whole word on."""
    if take >= len(spans):
        return f"{text} " if text else ""
    start = spans[len(spans) - take][0] if take else len(text)
    if text[start - 1 : start].strip() and " " in text[start:]:
        start = text.index(" ", start) + 1
    return f"{_CUT}{text[start:]} "


def _lead(text: str, spans: Sequence[tuple[int, int]], take: int) -> str:
    """Return the first tokens of the right context, up to the last whole word."""
    if take >= len(spans):
        return f" {text}" if text else ""
    end = spans[take][0]
    if text[end - 1 : end].strip() and " " in text[:end]:
        end = text.rindex(" ", 0, end)
    return f" {text[:end].rstrip()}{_CUT}"


_BATCH = 32
_UNLIMITED = 1_000_000
"""Tokenizers without a limit of their own report a number beyond this."""
_LIMIT = 512


class PairScorer:
    """Scores pairs of texts; calls from several threads take turns.

    Pairs of like length are computed together. A pair's score does not depend on the others
    beyond floating-point noise.
    """

    def __init__(self, tokenizer: Any, run: Run, *, batch: int = _BATCH) -> None:
        """Take a fast tokenizer, whose `model_max_length` is the limit, and the encoder."""
        self._tokenizer, self._run, self._batch = tokenizer, run, batch
        self._lock = threading.RLock()
        self.limit = token_limit(tokenizer)
        """Most tokens of a pair, special tokens counted; of a longer pair the longer text is cut."""
        self.form = form_of(tokenizer, self._lock)
        """The form in which a filter reads sentences, measured by this tokenizer."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return a probability for each pair, in [0, 1], in order."""
        return [float(one) for one in _sigmoid(np.asarray(self.logits(pairs), dtype=np.float64))]

    def logits(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the logits (before the sigmoid), in order."""
        found = [0.0] * len(pairs)
        with self._lock:
            rows = self._encoded(pairs)
            order = sorted(range(len(rows)), key=lambda i: -len(rows[i]["input_ids"]))
            for batch in _batches(order, self._batch):
                logits = self._run(self._padded([rows[i] for i in batch]))
                for i, logit in zip(batch, logits, strict=True):
                    found[i] = float(logit)
        return found

    def count(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        """Return the number of tokens read of each pair, special ones included."""
        with self._lock:
            return [len(row["input_ids"]) for row in self._encoded(pairs)]

    def _encoded(self, pairs: Sequence[tuple[str, str]]) -> list[dict[str, list[int]]]:
        if not pairs:
            return []
        firsts, seconds = (list(one) for one in zip(*pairs, strict=True))
        encoded = self._tokenizer(firsts, seconds, truncation="longest_first", max_length=self.limit, padding=False)
        return [
            {name: encoded[name][i] for name in self._tokenizer.model_input_names if name in encoded}
            for i in range(len(pairs))
        ]

    def _padded(self, rows: Sequence[dict[str, list[int]]]) -> dict[str, NDArray[np.int64]]:
        filler = {
            "input_ids": self._tokenizer.pad_token_id or 0,
            "token_type_ids": self._tokenizer.pad_token_type_id,
        }
        width = max(len(row["input_ids"]) for row in rows)
        made: dict[str, NDArray[np.int64]] = {}
        for name in rows[0]:
            made[name] = np.full((len(rows), width), filler.get(name, 0), dtype=np.int64)
            for i, row in enumerate(rows):
                made[name][i, : len(row[name])] = row[name]
        return made


def load_pair_scorer(folder: str | Path, device: str = "auto") -> PairScorer:
    """Load a trained cross-encoder; no code in the folder is run.

    Where the folder contains an ONNX form and onnxruntime is installed, that is used on the CPU:
    its scores are those of the weights within 1e-3.

    Args:
        folder: The part's folder.
        device: `auto` (the ONNX form, or CUDA where there is one), `cpu`, `cuda`, `cuda:1`.

    Raises:
        UsageError: Something in the folder could run, or weights or device are missing.
        MissingExtraError: What it runs with is not installed.
        ModelError: Weights or tokenizer can't be read.
    """
    root = Path(folder)
    if not root.is_dir():
        raise UsageError(f"{root}: no such folder")
    check_encoder(root)
    tokenizer = load_tokenizer(root)
    fast = device in ("auto", "cpu") and (root / ONNX).is_file() and _has_onnx()
    return PairScorer(tokenizer, onnx_run(root / ONNX) if fast else torch_run(root, device))


def form_of(tokenizer: Any, lock: threading.RLock | None = None) -> SentenceForm:
    """Return the form in which a filter with this fast tokenizer reads sentences."""
    held = lock or threading.RLock()

    def tokens(text: str) -> list[tuple[int, int]]:
        with held:
            encoded = tokenizer(
                text,
                add_special_tokens=False,
                return_offsets_mapping=True,
                truncation=False,
                verbose=False,
            )
        return [(start, end) for start, end in encoded["offset_mapping"]]

    special = tokenizer.num_special_tokens_to_add(pair=True)
    return SentenceForm(tokens, max(1, token_limit(tokenizer) - special))


def token_limit(tokenizer: Any) -> int:
    """Return the most tokens that a tokenizer's model reads; 512 where it states no limit."""
    limit = int(min(tokenizer.model_max_length, _UNLIMITED))
    return limit if limit < _UNLIMITED else _LIMIT


def _has_onnx() -> bool:
    return find_spec("onnxruntime") is not None


def _batches(order: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for first in range(0, len(order), size):
        yield order[first : first + size]


def _sigmoid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    low = np.exp(-np.abs(values))
    return np.where(values >= 0, 1 / (1 + low), low / (1 + low))
