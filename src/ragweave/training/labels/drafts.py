"""Draft answers: written by a proxy model, or a field of the file."""

from __future__ import annotations

from typing import Any

from ragweave.errors import UsageError
from ragweave.tools.models import ChatModel
from ragweave.training.labels.ask import Drafter
from ragweave.training.labels.maker import Once
from ragweave.training.labels.source import Bad, Item
from ragweave.training.labels.specs import redacted


class Drafts:
    """Where the drafts of a labelling come from."""

    def __init__(self, proxy: ChatModel | None, spec: str, field: str | None) -> None:
        """Take a proxy model and its spec, or the name of a field.

        Raises:
            UsageError: Both or neither are given.
        """
        if (proxy is None) == (field is None):
            raise UsageError(
                "give --proxy MODEL, which writes drafts, or --draft FIELD, which has them"
            )
        self._drafter = Drafter(proxy) if proxy is not None else None
        self._field = field
        self.described: dict[str, Any] = (
            {"draft": f"field {field}"} if field else {"draft": redacted(spec) or "a model"}
        )
        """What is written down of it."""

    @property
    def asks(self) -> bool:
        """Whether a model is asked."""
        return self._drafter is not None

    def check(self, item: Item) -> Bad | None:
        """Say whether a row lacks its draft; an empty one is a draft."""
        if self._field is None or isinstance(item.row.fields.get(self._field), str):
            return None
        found = ", ".join(map(str, item.row.fields))
        error = item.row.fault(f"no text in {self._field!r}; found: {found}")
        return Bad(item.at, item.data, "no draft", str(error))

    async def of(self, item: Item, once: Once) -> str:
        """Return the draft of a question."""
        drafter = self._drafter
        if drafter is None:
            return str(item.row.fields[self._field or ""]).strip()
        reply = await once("draft", lambda: drafter.draft(item))
        return str(reply["text"]).strip()
