"""What each step reads off a model's reply, as plain JSON: for recorded replies."""

from __future__ import annotations

from typing import Any

def read_record(record: dict[str, Any]) -> Any:
    return None
