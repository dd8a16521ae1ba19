"""Stores that hold a knowledge base behind a server: PostgreSQL, Qdrant, search engines."""

from ragweave.tools.stores.address import Address, Place
from ragweave.tools.stores.named import STORES, open_store, place_of
from ragweave.tools.stores.passage_store import Held, Hit, Key, PassageStore, Row, StoreKind

__all__ = [
    "STORES",
    "Address",
    "Held",
    "Hit",
    "Key",
    "PassageStore",
    "Place",
    "Row",
    "StoreKind",
    "open_store",
    "place_of",
]
