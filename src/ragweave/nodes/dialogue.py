"""Several model calls in one node: their updates joined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragweave.state import Update, add_usage


def ledger(*updates: Mapping[str, Any]) -> Update:
    """Return the usage and the notes of several calls as one update."""
    joined: Update = {"notes": [note for update in updates for note in update.get("notes", [])]}
    for update in updates:
        if "usage" in update:
            joined["usage"] = add_usage(joined.get("usage"), update["usage"])
    return joined
