"""A trained part's card: what a folder holds, how it was made, how good it is.

A part is a folder of weights (safetensors), tokenizer and `part.json`, which is written last: a
folder without it is no finished part. `README.md` beside it says the same to people.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args

from ragweave.errors import UsageError
from ragweave.tools.files import write_atomic

FORMAT = 1
"""Version of the folder's format; a part of another version is refused."""

CARD = "part.json"

PartRole = Literal["judge", "rewriter", "filter", "generator"]
"""What a part does: SlimPLM's judge and rewriter, FILCO's M_ctx (filter) and M_gen (generator)."""


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """What `part.json` says."""

    role: PartRole
    kind: str
    """How it works: `cross-encoder`, `seq2seq`, `causal-lora`, …"""
    base: str
    """The model that training began from, by the name that the user gave."""
    threshold: float | None = None
    """Probability above which a judge says known, or a filter keeps a sentence; chosen on held-out
    rows, or as `threshold_from` says. None: the part writes text and has none."""
    threshold_from: str = ""
    """What the threshold was chosen on."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Files with their hashes, rows by label, targets cut."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the training."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Measured on held-out rows."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of ragweave and of the libraries that trained it."""
    created: str = ""
    """Date and time, ISO 8601, UTC."""
    format: int = FORMAT

    @property
    def decides_at(self) -> float:
        """The threshold; 0.5 where there is none."""
        return 0.5 if self.threshold is None else self.threshold


def is_part(path: str | Path) -> bool:
    """Tell whether a folder is a finished part."""
    return (Path(path) / CARD).is_file()


def read_card(folder: str | Path, role: PartRole | None = None) -> ModelCard:
    """Read a part's card.

    Args:
        folder: The part's folder.
        role: What the part is wanted for; None: anything.

    Raises:
        UsageError: The folder is no finished part, the card is damaged, of another format version,
            or the part was trained for another role.
    """
    path = Path(folder)
    if not is_part(path):
        reason = "its training did not finish" if _unfinished(path) else f"no {CARD} in it"
        raise UsageError(f"{path}: is no trained part ({reason})")
    card = _card(path / CARD)
    if role is not None and card.role != role:
        raise UsageError(f"{path}: was trained as a {card.role}, and a {role} is wanted here")
    return card


def write_card(folder: Path, card: ModelCard) -> None:
    """Write the card, whole or not at all; this makes the folder a part."""
    text = json.dumps(dataclasses.asdict(card), ensure_ascii=False, indent=2) + "\n"
    write_atomic(folder / CARD, text)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_table(value: object) -> bool:
    return isinstance(value, dict)


def _is_threshold(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value is None or (number and 0 <= cast("float", value) <= 1)


_FITS: dict[str, Callable[[object], bool]] = {
    "role": lambda value: value in get_args(PartRole),
    "kind": _is_text,
    "base": _is_text,
    "threshold": _is_threshold,
    **dict.fromkeys(("data", "settings", "metrics", "versions"), _is_table),
}


def _unfinished(path: Path) -> bool:
    return (path / "training.json").is_file()


def _card(path: Path) -> ModelCard:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read ({type(error).__name__})") from error
    if not isinstance(fields, dict) or not isinstance(fields.get("format"), int):
        raise UsageError(f"{path}: is no card of a trained part")
    if fields["format"] != FORMAT:
        raise UsageError(
            f"{path}: has format {fields['format']}, this ragweave reads format {FORMAT}: "
            f"{'upgrade ragweave' if fields['format'] > FORMAT else 'train the part again'}"
        )
    known = {one.name for one in dataclasses.fields(ModelCard)}
    wrong = [name for name, fits in _FITS.items() if not fits(fields.get(name))]
    if wrong:
        raise UsageError(f"{path}: is damaged ({', '.join(wrong)})")
    return ModelCard(**{name: value for name, value in fields.items() if name in known})
