"""Labels for the retrieval-necessity judge: is the proxy's draft answer known? (SlimPLM, 3.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragweave.tools.claims import (
    check_aliases,
    check_theta,
    is_released,
    match_ratio,
    names_apart,
    only_yes_or_no,
)
from ragweave.tools.models import ChatModel, within_limit
from ragweave.trained import PartRole
from ragweave.training.labels.labeler import (
    CachedCall,
    DroppedRow,
    LabelledRow,
    RowLabel,
    down_sample,
)
from ragweave.training.labels.models import Drafts, draft_settings
from ragweave.training.labels.source import (
    Gold,
    InvalidRow,
    Item,
    short_gold,
)

YES_NO = "a yes or no answer, of which a match ratio says nothing"


class JudgeLabeler:
    """Makes judge rows: drafts by a proxy or of the file, labels by match ratio and θ."""

    role: PartRole = "judge"

    def __init__(
        self,
        *,
        proxy: ChatModel | None = None,
        proxy_spec: str = "",
        draft: str | None = None,
        theta: float = 0.5,
        aliases: str = "auto",
        gold: str | None = None,
        known: str | None = None,
        balance: bool = True,
        seed: int = 0,
    ) -> None:
        """Set how rows are labelled.

        Args:
            proxy: The model that drafts answers.
            proxy_spec: What is written down of it.
            draft: The field of drafts that the file has; then no model is asked.
            theta: θ, the share of gold answers that a draft must exceed to be known.
            aliases: How names of one answer count, see `Aliases`.
            gold: The field of the gold answers; None: as the data set's format has them.
            known: The field of a label that the file has; then nothing is compared.
            balance: Whether the larger class is down-sampled.
            seed: Seed of that draw.

        Raises:
            UsageError: A value is out of range, or neither drafts nor what writes them is given.
        """
        check_theta(theta)
        check_aliases(aliases)
        self._drafts = Drafts(proxy, proxy_spec, draft)
        self._proxy = proxy
        self._theta, self._aliases, self._gold, self._known = theta, aliases, gold, known
        self._balance, self._seed = balance, seed
        self.needs_gold = known is None and gold is None

    def settings(self) -> dict[str, Any]:
        """Return what bears on the rows."""
        proxied: dict[str, Any] = {}
        if self._proxy is not None:
            proxied = {"draft_settings": within_limit(self._proxy, draft_settings(self._proxy))}
        named = {"gold": self._gold, "known": self._known}
        return {
            **self._drafts.described,
            **proxied,
            "theta": self._theta,
            "aliases": self._aliases,
            **{name: value for name, value in named.items() if value},
            "balance": self._balance,
            **({"seed": self._seed} if self._balance else {}),
        }

    def check(self, item: Item) -> InvalidRow | None:
        """Say what is wrong with a row."""
        if self._known and not isinstance(item.row.fields.get(self._known), bool):
            error = str(item.row.error(f"{self._known!r} must be true or false"))
            return InvalidRow(item.index, item.data, "no label", error)
        if not self._known and not short_gold(item, self._aliases, self._gold):
            error = str(item.row.error(f"no short gold answers{self._why(item)}"))
            return InvalidRow(item.index, item.data, "no short gold answers", error)
        return self._drafts.check(item)

    async def make(self, item: Item, call: CachedCall) -> LabelledRow | DroppedRow:
        """Make the row."""
        gold = short_gold(item, self._aliases, self._gold)
        if not self._known and not is_released(item.row.fields) and only_yes_or_no(gold):
            return DroppedRow(YES_NO)
        draft = await self._drafts.of(item, call)
        return self._labelled(item, draft, gold)

    def rows_to_drop(self, labels: Sequence[RowLabel]) -> Mapping[int, str]:
        """Leave out rows of the larger class."""
        if not self._balance:
            return {}
        return dict.fromkeys(down_sample(labels, self._seed), "to balance known and unknown")

    def count(self, row: Mapping[str, Any]) -> Mapping[str, int]:
        """Count by label, and the drafts in which nothing stands."""
        return {"known" if row["known"] else "unknown": 1, "empty drafts": int(not row["draft"])}

    def _labelled(self, item: Item, draft: str, gold: Gold) -> LabelledRow:
        row: dict[str, Any] = {"id": item.id, "question": item.text, "draft": draft}
        how: dict[str, Any] = dict(self._drafts.described)
        if self._known:
            row["known"] = item.row.fields[self._known]
            how["label"] = f"field {self._known}"
        else:
            ratio = match_ratio(draft, gold)
            row |= {"known": ratio > self._theta, "match_ratio": round(ratio, 6)}
            how |= {"label": "match ratio", "theta": self._theta}
        if gold:
            row["answers"] = gold
            apart = names_apart(item.row.fields, self._aliases)
            how["aliases"] = "apart" if apart else "together"
        return LabelledRow(row, how)

    def _why(self, item: Item) -> str:
        if self._gold:
            return f" in {self._gold!r}"
        question = item.question
        if question is not None and not question.answerable:
            return " (the question cannot be answered)"
        if question is not None and question.answers:
            return " (its answers are long texts, which a draft cannot repeat word for word)"
        return ""
