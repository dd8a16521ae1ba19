"""What calls cost: paid for, or had from the cache, by role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragweave.state import Tokens


def no_tokens() -> Tokens:
    """Return zeros."""
    return {"calls": 0, "input_tokens": 0, "output_tokens": 0}


def _add(table: dict[str, Tokens], role: str, tokens: Mapping[str, Any]) -> None:
    entry = table.setdefault(role, no_tokens())
    entry["calls"] += tokens["calls"]
    entry["input_tokens"] += tokens["input_tokens"]
    entry["output_tokens"] += tokens["output_tokens"]


@dataclass(slots=True)
class Ledger:
    """Calls and tokens by role."""

    paid: dict[str, Tokens] = field(default_factory=dict)
    """What a model answered."""
    cached: dict[str, Tokens] = field(default_factory=dict)
    """What the cache answered."""

    def pay(self, role: str, tokens: Tokens) -> None:
        """Count a call that a model answered."""
        _add(self.paid, role, tokens)

    def hit(self, role: str, tokens: Tokens) -> None:
        """Count a call that the cache answered."""
        _add(self.cached, role, tokens)

    def add(self, plain: Mapping[str, Any]) -> None:
        """Add what `plain` of another ledger gave."""
        for role, tokens in plain["paid"].items():
            _add(self.paid, role, tokens)
        for role, tokens in plain["cached"].items():
            _add(self.cached, role, tokens)

    def plain(self) -> dict[str, Any]:
        """Return JSON values, the roles in order of their names."""
        return {
            "paid": dict(sorted(self.paid.items())),
            "cached": dict(sorted(self.cached.items())),
        }

    @property
    def paid_tokens(self) -> int:
        """Input and output tokens paid for."""
        return sum(one["input_tokens"] + one["output_tokens"] for one in self.paid.values())

    @property
    def paid_calls(self) -> int:
        """Calls paid for."""
        return sum(one["calls"] for one in self.paid.values())

    @property
    def cached_calls(self) -> int:
        """Calls that the cache answered."""
        return sum(one["calls"] for one in self.cached.values())
