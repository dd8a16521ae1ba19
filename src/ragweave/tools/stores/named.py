"""The stores by name, and which of them an address means."""

from __future__ import annotations

import os
from pathlib import Path

from ragweave.errors import UsageError
from ragweave.registry import Registry
from ragweave.tools.stores import postgres, qdrant, search_engine
from ragweave.tools.stores.address import Address, Place, hidden
from ragweave.tools.stores.passage_store import PassageStore, StoreKind

STORES: Registry[StoreKind] = Registry(
    "ragweave.stores",
    StoreKind,
    "store",
    lambda: (
        postgres.STORE,
        qdrant.STORE,
        search_engine.ELASTICSEARCH,
        search_engine.OPENSEARCH,
    ),
)
"""Every store by name: ours, then those of other packages (entry points `ragweave.stores`)."""


def place_of(given: str | Path | Address) -> Place:
    """Return the folder or the address that a user's text means; a folder's `~` is the home.

    Raises:
        UsageError: It is empty, or an address that cannot be read, or of a store that there is
            none of.
    """
    if not isinstance(given, str):
        return given
    if not given.strip():
        raise UsageError("a knowledge base needs a folder or an address: the text given is empty")
    store = given.strip().partition(":")[0]
    if store in STORES and ":" in given:
        return Address.parse(given)
    if "://" in given:
        known = ", ".join(f"{name}:" for name in STORES)
        raise UsageError(
            f"{hidden(given)}: put the store's name in front of the URL: one of {known}"
        )
    return Path(os.path.expanduser(given))  # noqa: PTH111 - never raises, where a Path may


def open_store(address: Address) -> PassageStore:
    """Open the collection at an address; it connects at first use.

    Raises:
        MissingExtraError: The store's client is not installed.
        UsageError: There is no such store, or it cannot be at such a place.
    """
    return STORES.named(address.store).open(address)
