"""The card of a trained component: what its folder holds, how it was trained and how good it is.

The folder holds weights (safetensors), a tokenizer where there is one, and `card.json`, which training writes last:
a folder without a card is not finished. No code in the folder is run.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ragweave.errors import UsageError, fault_of
from ragweave.roles import RoleName

CARD = "card.json"

TrainedRole: TypeAlias = RoleName | Literal["filter"]
"""What a component does: the role of a model (SlimPLM's judge and rewriter, FILCO's generator M_gen, Adaptive-RAG's
router), or FILCO's context filter (M_ctx), which is not a model of a graph."""

Kind = Literal["linear", "bi-encoder", "seq2seq", "causal-lora"]
"""How it works."""

_WRITTEN: tuple[TrainedRole, ...] = ("judge", "rewriter", "filter", "generator")
ROLES_BY_KIND: Mapping[Kind, tuple[TrainedRole, ...]] = {
    "linear": ("judge", "router"),
    "bi-encoder": ("filter",),
    "seq2seq": _WRITTEN,
    "causal-lora": _WRITTEN,
}
"""The roles that each kind can play; kinds are listed from the smallest to the largest."""


class Card(BaseModel):
    """The content of `card.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: TrainedRole
    kind: Kind
    base: str
    """The model that training began from: `minilm` (packaged), a folder or a hub name."""
    threshold: float | None = Field(default=None, ge=0, le=1)
    """A judge says known and a filter keeps a sentence above it; a router's dearer route must add more than it to the
    probability of a right answer. None: the component writes text."""
    unit: Literal["sentence", "passage"] = "sentence"
    """What a filter keeps or drops."""
    alone: bool = False
    """Whether a filter that writes reads one passage at a time, as it was trained."""
    drafts: bool = True
    """Whether a judge or router reads a draft answer too, or the question alone."""
    max_input: int = Field(default=1024, ge=1)
    """Maximum number of tokens read."""
    max_output: int = Field(default=512, ge=1)
    """Maximum number of tokens written."""
    data: dict[str, Any] = {}
    """Files with their hashes, and numbers of rows."""
    settings: dict[str, Any] = {}
    """Settings of the training."""
    metrics: dict[str, float] = {}
    """Measured on held-out rows."""
    versions: dict[str, str] = {}
    """Versions of ragweave and of the libraries that trained it."""
    created: str = ""
    """Date and time, ISO 8601, UTC."""

    @model_validator(mode="after")
    def _plays(self) -> Self:
        if self.role not in ROLES_BY_KIND[self.kind]:
            raise ValueError(f"a {self.kind} component can't be a {self.role}")
        return self


def read_card(folder: str | Path, role: TrainedRole | None = None) -> Card:
    """Return the card of a trained component, which must have the role; nothing else in the folder is read.

    Raises:
        UsageError: There is no such folder, its training did not finish, its card is damaged, or it was trained for
            another role.
    """
    path = Path(folder).expanduser()
    if not path.is_dir():
        hint = f" (for a GGUF file write llamacpp:{path})" if path.is_file() else ""
        raise UsageError(f"{path}: not a folder; a trained component is a folder from `ragweave train`{hint}")
    try:
        card = Card.model_validate_json((path / CARD).read_bytes())
    except FileNotFoundError:
        raise UsageError(f"{path}: not a trained component, or its training did not finish (no {CARD})") from None
    except (OSError, ValidationError) as error:
        reason = fault_of(error, "the card") if isinstance(error, ValidationError) else str(error)
        raise UsageError(f"{path / CARD}: can't be read ({reason})") from error
    if role is not None and card.role != role:
        raise UsageError(f"{path}: was trained as a {card.role}, but a {role} is needed here")
    return card


def write_card(folder: Path, card: Card) -> None:
    """Write the card; this makes the folder a trained component."""
    draft = folder / f"{CARD}.new"
    draft.write_text(card.model_dump_json(indent=2) + "\n", "utf-8")
    draft.replace(folder / CARD)
