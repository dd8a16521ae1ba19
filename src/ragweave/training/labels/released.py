"""SlimPLM's released rewriter annotations: GPT-4's claims and sub-questions beside a draft."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragweave.tools.claims import ClaimQuery, QuestionQuery, Rewrite
from ragweave.training.labels.gold import RELEASED

_CLAIMS = "_claims"


def is_annotated(fields: Mapping[str, Any]) -> bool:
    """Tell whether a row brings its claims and sub-questions."""
    return _claims_field(fields) is not None and isinstance(fields.get("questions"), list)


def draft_field(fields: Mapping[str, Any]) -> str | None:
    """Return the name of the row's draft: the field that its claims were split from."""
    claims = _claims_field(fields) or ""
    drafts = [str(name) for name in fields if str(name).endswith(RELEASED)]
    return next((one for one in drafts if claims.startswith(one.removesuffix("answer"))), None)


def annotation(fields: Mapping[str, Any]) -> Rewrite:
    """Return a row's annotation as a rewriter's reply says it.

    A record without a query has its own text for one, unless it needs no search.
    """
    claims = [
        ClaimQuery(*_record(one, "claim", "query"))
        for one in _objects(fields[_claims_field(fields) or ""])
    ]
    questions = [
        QuestionQuery(*_record(one, "question", "searchWord"))
        for one in _objects(fields["questions"])
    ]
    return Rewrite(
        [one for one in questions if one.question],
        [one for one in claims if one.claim],
        parsed=True,
    )


def _claims_field(fields: Mapping[str, Any]) -> str | None:
    for name, value in fields.items():
        if str(name).endswith(_CLAIMS) and isinstance(value, list):
            return str(name)
    return None


def _objects(value: Any) -> Sequence[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)]


def _record(one: Mapping[str, Any], text: str, query: str) -> tuple[str, bool, str]:
    said = " ".join(str(one.get(text) or "").split())
    searched = one.get("needSearch") is not False
    return said, searched, " ".join(str(one.get(query) or said).split()) if searched else ""
