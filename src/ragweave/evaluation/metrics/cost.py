"""Cost in US dollars by a price table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from ragweave.errors import UsageError
from ragweave.tools.files import parse_json
from ragweave.tools.models.roles import Role
from ragweave.tools.prices import Price
from ragweave.tools.scorers.specs import SCORER_ROLE

Prices = Mapping[str, Price]
"""Prices by role (`answer`, `proxy`, `judge`, `rewrite`, `filter`; `scorer` for CXMI, `evaluator` for
the judged metrics); `*` stands for the rest, but for `scorer`: most run in this process and cost
nothing."""

JUDGE_ROLE = "evaluator"
"""The role of the model that judges answers for the judged metrics; no method has it."""
_KNOWN = (*get_args(Role), SCORER_ROLE, JUDGE_ROLE, "*")


def cost(by_role: Mapping[str, Mapping[str, Any]], prices: Prices) -> float | None:
    """Return the cost of a ledger's tokens by role; None where a role has no price."""
    if not prices:
        return None
    total = 0.0
    for role, tokens in by_role.items():
        if is_free(role, prices):
            continue
        price = prices.get(role, prices.get("*"))
        if price is None:
            return None
        total += price.of(tokens["input_tokens"], tokens["output_tokens"])
    return total


def is_free(role: str, prices: Prices) -> bool:
    """Return whether a role costs nothing unless a price is given for it: a scorer's."""
    return role == SCORER_ROLE and role not in prices


def read_prices(text: str) -> dict[str, Price]:
    """Read `INPUT,OUTPUT` (dollars a million tokens), or a JSON file of such pairs by role.

    Raises:
        UsageError: It is neither, names a role that there is not, or a price is below zero.
    """
    if not text:
        return {}
    listed: object = {"*": text.split(",")}
    if Path(text).is_file():
        try:
            listed = parse_json(Path(text).read_text("utf-8"))
        except ValueError as error:
            raise UsageError(f"{text}: is not valid JSON: {error}") from error
    if not isinstance(listed, Mapping):
        raise UsageError(f"{text}: prices must be an object that maps each role to [input, output]")
    for role in listed:
        if role not in _KNOWN:
            raise UsageError(f"{text}: no role {role!r}; choose one of: {', '.join(_KNOWN)}")
    return {str(role): _price(text, pair) for role, pair in listed.items()}


def _price(text: str, pair: object) -> Price:
    try:
        price = Price.read(pair)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"prices {text!r}: give INPUT,OUTPUT in dollars a million tokens, such as 0.15,0.60, "
            "or a JSON file of role to [input, output]"
        ) from error
    if not (price.input >= 0 and price.output >= 0):
        raise UsageError(f"prices {text!r}: a price can't be below zero")
    return price
