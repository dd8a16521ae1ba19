"""A trained part's card: what its folder contains, how it was trained, how good it is.

A part is a folder of weights (safetensors), tokenizer and `part.json`, which is written last: a
folder without it is not a finished part. The `README.md` beside it says the same in prose. This
file reads and writes the card, knows the kinds of parts and their roles, and resolves the specs
that name a part (`judge/`, `part:judge?threshold=0.6`).

Loading a part must never run code that came with it. Weights are read from safetensors only;
pickles, Python files and configurations that name code are rejected before any library looks at
the folder (`check_safe`). Loaders still pass `trust_remote_code=False`, `use_safetensors=True` and
`local_files_only=True`.
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
from ragweave.tools.files import parse_json, write_atomic
from ragweave.tools.models.specs import PREFIX, existing, part_spec

FORMAT = 1
"""Version of the folder's format; a part of another version is refused."""

CARD = "part.json"

PartRole = Literal["judge", "rewriter", "filter", "generator", "router"]
"""What a part does: SlimPLM's judge and rewriter, FILCO's M_ctx (filter) and M_gen (generator), and
a router, which chooses none, one or many rounds of retrieval."""


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """The content of `part.json`."""

    role: PartRole
    kind: str
    """How it works: `cross-encoder`, `seq2seq`, `causal-lora`, …"""
    base: str
    """The base model of the training, by the name that the user gave."""
    threshold: float | None = None
    """Probability above which a judge says known, or a filter keeps a sentence; chosen on held-out
    rows, or as `threshold_from` says. None: the part generates text and has none."""
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
    def effective_threshold(self) -> float:
        """The threshold; 0.5 where there is none."""
        return 0.5 if self.threshold is None else self.threshold


def is_part(path: str | Path) -> bool:
    """Return whether a folder is a finished part."""
    return (Path(path) / CARD).is_file()


def read_card(folder: str | Path, role: PartRole | None = None) -> ModelCard:
    """Read a part's card.

    Args:
        folder: The part's folder.
        role: The role that the part must have; None: any.

    Raises:
        UsageError: The folder is not a finished part, the card is damaged or of another format
            version, or the part was trained for another role.
    """
    path = Path(folder)
    if not is_part(path):
        reason = "its training did not finish" if _unfinished(path) else f"it has no {CARD}"
        raise UsageError(f"{path}: is not a trained part ({reason})")
    card = _card(path / CARD)
    if role is not None and card.role != role:
        raise UsageError(f"{path}: was trained as a {card.role}, but a {role} is needed here")
    return card


def write_card(folder: Path, card: ModelCard) -> None:
    """Write the card, whole or not at all; this makes the folder a part. One writer at a time."""
    text = json.dumps(dataclasses.asdict(card), ensure_ascii=False, indent=2) + "\n"
    write_atomic(folder / CARD, text, alone=True)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_table(value: object) -> bool:
    return isinstance(value, dict)


def _is_threshold(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value is None or (number and 0 <= cast("float", value) <= 1)


_VALID: dict[str, Callable[[object], bool]] = {
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
        fields = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read ({type(error).__name__})") from error
    if not isinstance(fields, dict) or not isinstance(fields.get("format"), int):
        raise UsageError(f"{path}: is not the card of a trained part")
    if fields["format"] != FORMAT:
        raise UsageError(
            f"{path}: has format {fields['format']}, but this ragweave reads format {FORMAT}: "
            f"{'upgrade ragweave' if fields['format'] > FORMAT else 'train the part again'}"
        )
    known = {one.name for one in dataclasses.fields(ModelCard)}
    wrong = [name for name, is_valid in _VALID.items() if not is_valid(fields.get(name))]
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
            raise UsageError(f"{root}: {name} is code, which a part must not contain")
        if path.suffix.lower() in _PICKLED:
            raise UsageError(f"{root}: {name} may be a pickle, which can run code: use safetensors")
        if path.suffix.lower() == ".json" and path.is_file() and _names_code(path):
            raise UsageError(f"{root}: {name} refers to custom code (auto_map)")


def _names_code(path: Path) -> bool:
    try:
        fields = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(fields, dict) and "auto_map" in fields


def absolute_spec(text: str) -> str:
    """Return a part's spec with an absolute path; other texts as they are.

    Raises:
        UsageError: There is no such folder.
    """
    spec = part_spec(text)
    if spec is None:
        return text
    settings = f"?{spec.query}" if spec.query else ""
    return f"{PREFIX}{existing(spec.folder).resolve()}{settings}"


def inspect_part(text: str) -> tuple[ModelCard, str]:
    """Return a part's card and the card's hash, which identifies this training of it.

    Raises:
        UsageError: The text does not name a finished part that this version can read, or the part
            is unsafe.
    """
    spec = part_spec(text)
    if spec is None:
        raise UsageError(f"{text}: does not name a trained part")
    card = read_card(existing(spec.folder))
    check_safe(spec.folder)
    return card, hashlib.sha256((spec.folder / CARD).read_bytes()).hexdigest()[:16]


SCORES = ("cross-encoder", "linear")
"""Kinds that give a probability for a pair of texts."""
JUDGES = ("linear",)
"""Those of them that read only a question and its draft answer."""
READS = ("span-encoder",)
"""Kinds that read whole passages and score their sentences: filters only."""
CHOOSES = ("linear-router",)
"""Kinds that choose a route: routers only."""
WRITES = ("seq2seq", "causal-lora")
"""Kinds that generate text."""


_KINDS = (*SCORES, *READS, *CHOOSES, *WRITES)


class Scoring(Protocol):
    """A loaded part of one of the `SCORES` kinds; safe under threads."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return a probability for each pair, in [0, 1], in order."""
        ...

    def count(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        """Return the number of tokens read of each pair."""
        ...


def card_of(folder: str | Path) -> ModelCard:
    """Return a part's card; nothing else in the folder is read.

    Raises:
        UsageError: There is no such folder, it is not a finished part, its card is damaged or of
            another format version, or its kind is unknown or does not match its role.
    """
    path = existing(Path(folder).expanduser())
    card = read_card(path)
    if card.kind not in _KINDS:
        known = ", ".join(_KINDS)
        raise UsageError(f"{path}: is of kind {card.kind!r}, but this ragweave knows {known}")
    if card.kind in JUDGES and card.role != "judge":
        raise UsageError(f"{path}: is damaged (a {card.kind} part is a judge, not a {card.role})")
    if card.kind in READS and card.role != "filter":
        raise UsageError(f"{path}: is damaged (a {card.kind} part is a filter, not a {card.role})")
    if (card.kind in CHOOSES) != (card.role == "router"):
        raise UsageError(f"{path}: is damaged (a {card.kind} part is no {card.role})")
    return card


def check_router(folder: str, *, drafts: bool = True) -> Path:
    """Return the folder of a trained router; nothing is loaded.

    Args:
        folder: The folder.
        drafts: Whether there will be a draft answer for it to read.

    Raises:
        UsageError: No folder is named, it is not a finished router, it is unsafe, or it was
            trained on drafts and there are none.
    """
    if not folder:
        raise UsageError(
            "route=classifier needs a trained router: router=FOLDER, from `ragweave train router`"
        )
    card = card_of(folder)
    if card.kind not in CHOOSES:
        raise UsageError(f"{folder}: was trained as a {card.role}, but a router is needed here")
    if not drafts and card.settings.get("drafts", True) is not False:
        raise UsageError(
            f"{folder}: was trained on draft answers, and a router of questions alone is needed "
            "here: `ragweave train router … --set drafts=false`"
        )
    path = Path(folder).expanduser().resolve()
    check_safe(path)
    return path


def router_looks(card: ModelCard) -> bool:
    """Return whether a router was trained on what a first look at a knowledge base found."""
    return bool(card.settings.get("look"))
