"""Labels for the query rewriter: a draft's claims and queries, by a teacher or as the released files have them.

Source: Tan et al. 2024 (SlimPLM), section 3.3 and appendix A.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ragweave.datasets import Question
from ragweave.errors import UsageError
from ragweave.evaluation.ask import ask
from ragweave.evaluation.folder import Record, dropped, row
from ragweave.evaluation.labels.known import Drafts
from ragweave.evaluation.labels.settings import LabelSettings
from ragweave.nodes.prompts import template_of
from ragweave.nodes.proxy import PROMPTS, Rewrite, Searched
from ragweave.tools.text.untrusted import untrusted


def target_text(found: Rewrite) -> str:
    """Return records as a rewriter's reply; one that needs no search has an empty query."""

    def shown(records: Sequence[Searched], kind: str, mark: str) -> str:
        return " ".join(
            f"<{kind}({_bare(one.text)})> <{mark}({one.needs_search})> <Query({_bare(one.query) * one.needs_search})>"
            for one in records
        )

    asked, said = shown(found.questions, "Question", "NeedSearch"), shown(found.claims, "Claim", "Search")
    return f"<Questions> {asked} </Questions>\n<Claims> {said} </Claims>".replace(">  <", "> <")


def _bare(text: str) -> str:
    return " ".join(re.sub(r"[<>]|```|&[lg]t;", " ", text).split())


class RewriteLabeller:
    """Labels drafts with their claims and queries: by a teacher, or as the rows hold them."""

    name = "rewrite"

    def __init__(self, settings: LabelSettings, models: Mapping[str, Any]) -> None:
        """Take the settings and the models: `teacher` and `proxy`, unless the rows hold claims and drafts.

        Raises:
            UsageError: Nobody annotates or drafts.
        """
        self._drafts, self._teacher, self._claims = Drafts(settings, models), models.get("teacher"), settings.label
        if self._teacher is None and not self._claims:
            raise UsageError("who annotates? Give --model teacher=SPEC, or --label FIELD if the rows hold claims")

    async def __call__(self, question: Question) -> Record:
        """Label one question."""
        draft = await self._drafts.of(question)
        if not draft:
            return dropped("no draft")
        if self._teacher is None:
            found = annotation(question.about, self._claims)
        else:
            values = {"question": question.question, "draft": untrusted(draft)}
            found = await ask(self._teacher, Rewrite, template_of(PROMPTS["rewrite"]).format_messages(**values))
        if found is None or not (found.questions or found.claims):
            return dropped("no annotation" if self._teacher is None else "a reply that cannot be read")
        return row(id=question.id, question=question.question, draft=draft, target=target_text(found))


def annotation(fields: Mapping[str, Any], claims: str) -> Rewrite | None:
    """Return the annotation of a row in the form of SlimPLM's released files; None if it has none.

    A record without a query has its own text for one, unless it needs no search.

    Args:
        fields: The row.
        claims: The field of the claims; the searches of the question itself are in `questions`.
    """
    said, asked = fields.get(claims), fields.get("questions")
    if not (isinstance(said, list) and isinstance(asked, list)):
        return None
    return Rewrite.model_construct(
        questions=_records(asked, "question", "searchWord"), claims=_records(said, "claim", "query")
    )


def _records(listed: Sequence[Any], text: str, query: str) -> list[Searched]:
    found = []
    for one in listed:
        said = " ".join(str(one.get(text) or "").split()) if isinstance(one, Mapping) else ""
        if said:
            searched = one.get("needSearch") is not False
            asked = " ".join(str(one.get(query) or said).split())
            found.append(Searched.model_construct(text=said, needs_search=searched, query=asked))
    return found
