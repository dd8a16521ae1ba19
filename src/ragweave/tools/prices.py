"""What hosted models cost: US dollars per million tokens, by the model's name.

`prices.json` holds OpenAI's list prices for text without batch or cache discounts, as published on its
price page (https://platform.openai.com/docs/pricing) and repeated by surveys of March 2026; prices
change, so check it, or name a table of your own, which comes first:

    RAGWEAVE_PRICES=prices.json     {"gpt-4o-mini": [0.15, 0.60], "my-server-model": [0, 0]}

A model that neither table names has no price, and neither has a model at another address than
OpenAI's unless your table names it.
"""

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from pydantic import NonNegativeFloat, TypeAdapter

from ragweave.errors import UsageError
from ragweave.tools.models import ChatModel
from ragweave.tools.models.extractive import ExtractiveChat
from ragweave.tools.models.roles import models_in, name_of, unbound

VARIABLE = "RAGWEAVE_PRICES"
_DATE = re.compile(r"-\d{4}-\d\d-\d\d$")
"""What a dated name adds: `gpt-4o-mini-2024-07-18`."""


class Price(NamedTuple):
    """US dollars for a million tokens."""

    input: NonNegativeFloat
    output: NonNegativeFloat

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """Return the price of so many tokens, in US dollars."""
        return (input_tokens * self.input + output_tokens * self.output) / 1_000_000


_TABLE = TypeAdapter(dict[str, Price])

OPENAI: Mapping[str, Price] = _TABLE.validate_json(Path(__file__).with_suffix(".json").read_bytes())
"""OpenAI's list prices."""


def price_of(model: ChatModel) -> Price | None:
    """Return a chat model's price, or None where it is not known.

    Raises:
        UsageError: The table that `RAGWEAVE_PRICES` names cannot be read.
    """
    target = unbound(getattr(unbound(model), "chat", model))  # a decision model may ask a chat model
    name = name_of(target)
    if not name:
        return None
    listed = _named(name, _own_table(os.environ.get(VARIABLE, "")))
    return listed if listed is not None or not _is_openai(target) else _named(name, OPENAI)


def check_priced(model: ChatModel, limit: str = "max_cost_usd") -> None:
    """Check that what a model and its fallbacks cost is known, which a limit needs; the embedded one is free.

    Raises:
        UsageError: The model has no price.
    """
    for target, _ in models_in(model):
        if price_of(target) is None and not isinstance(target, ExtractiveChat):
            name = name_of(target) or type(target).__name__
            raise UsageError(f"{limit} needs the price of {name}: name it in the file of {VARIABLE}")


def _named(name: str, table: Mapping[str, Price]) -> Price | None:
    return table.get(name, table.get(_DATE.sub("", name)))


def _is_openai(target: object) -> bool:
    base = getattr(target, "openai_api_base", None) or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com"
    is_client = any(kind.__name__ == "ChatOpenAI" for kind in type(target).__mro__)
    return is_client and urlsplit(base).hostname == "api.openai.com"


@lru_cache(maxsize=4)
def _own_table(path: str) -> Mapping[str, Price]:
    if not path:
        return {}
    try:
        return _TABLE.validate_json(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{VARIABLE}={path}: must be a JSON file that maps each model to [input, output], in US "
            f"dollars a million tokens ({error})"
        ) from error
