"""A trained part's card: what a folder holds, how it was made, how good it is.

A part is a folder of weights (safetensors), tokenizer and `part.json`, which is written last: a
folder without it is no finished part. `README.md` beside it says the same to people.

Loading a folder of weights must run no code that came with it.

Weights are read as safetensors alone; pickles, Python files and configurations that name code are
refused before any library looks at the folder. Loaders still pass `trust_remote_code=False`,
`use_safetensors=True` and `local_files_only=True`.

Trained parts behind the texts that name them: `judge/`, `part:judge?threshold=0.6`.

The kinds of trained parts, and which of them serve which role.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, cast, get_args

from ragweave.errors import UsageError
from ragweave.tools.files import write_atomic
from ragweave.tools.models.specs import PREFIX, existing, part_spec

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


_CODE = (".py", ".pyc", ".so", ".pyd", ".dll", ".dylib")
_PICKLED = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".joblib", ".ckpt", ".npy")


def check_safe(folder: str | Path) -> None:
    """Check that nothing in a folder could run when it is loaded.

    Raises:
        UsageError: There is code, a pickle, a configuration that names code, or a link that leads
            out of the folder; the text names the file.
    """
    root = Path(folder)
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
            raise UsageError(f"{root}: {name} is a link that leads out of the folder")
        if path.suffix.lower() in _CODE:
            raise UsageError(f"{root}: {name} is code, and a part may hold none")
        if path.suffix.lower() in _PICKLED:
            raise UsageError(f"{root}: {name} may be a pickle, which can run code: use safetensors")
        if path.suffix.lower() == ".json" and path.is_file() and _names_code(path):
            raise UsageError(f"{root}: {name} asks for code of its own (auto_map)")


def _names_code(path: Path) -> bool:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(fields, dict) and "auto_map" in fields


def absolute_spec(text: str) -> str:
    """Return a part's spec that means the same in any working directory; other texts as they are.

    Raises:
        UsageError: The folder is no finished part.
    """
    spec = part_spec(text)
    if spec is None:
        return text
    settings = f"?{spec.query}" if spec.query else ""
    return f"{PREFIX}{existing(spec.folder).resolve()}{settings}"


def inspected(text: str) -> tuple[ModelCard, str]:
    """Return a part's card, and what tells one training of it from another: the card's hash.

    Raises:
        UsageError: The text names no finished part that this version can read, or an unsafe one.
    """
    spec = part_spec(text)
    if spec is None:
        raise UsageError(f"{text}: names no trained part")
    card = read_card(existing(spec.folder))
    check_safe(spec.folder)
    return card, hashlib.sha256((spec.folder / CARD).read_bytes()).hexdigest()[:16]


SCORES = ("cross-encoder", "linear")
"""Kinds that give a probability for a pair of texts."""
JUDGES = ("linear",)
"""Those of them that read a question and its draft, and nothing else."""
READS = ("span-encoder",)
"""Kinds that read whole passages and score their sentences: filters alone."""
WRITES = ("seq2seq", "causal-lora")
"""Kinds that write text."""


class Scoring(Protocol):
    """What a part of a kind in `SCORES` is, once loaded; safe under threads."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return a probability for each pair, in [0, 1], in order."""
        ...

    def count(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        """Return the tokens that are read of each pair."""
        ...


def card_of(folder: str | Path) -> ModelCard:
    """Return a part's card; nothing else of the folder is read.

    Raises:
        UsageError: There is no such folder, it is no finished part, its card is damaged or of
            another format version, or its kind is unknown or not one for its role.
    """
    path = existing(Path(folder).expanduser())
    card = read_card(path)
    if card.kind not in (*SCORES, *READS, *WRITES):
        known = ", ".join((*SCORES, *READS, *WRITES))
        raise UsageError(f"{path}: is of kind {card.kind!r}, and this ragweave knows {known}")
    if card.kind in JUDGES and card.role != "judge":
        raise UsageError(f"{path}: is damaged (a {card.kind} part is a judge, not a {card.role})")
    if card.kind in READS and card.role != "filter":
        raise UsageError(f"{path}: is damaged (a {card.kind} part is a filter, not a {card.role})")
    return card
