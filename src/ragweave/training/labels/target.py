"""The text that a rewriter learns to write: one form, read back to the same records."""

from __future__ import annotations

from collections.abc import Iterable

from ragweave.tools.claims import ClaimQuery, QuestionQuery, Rewrite, parse_rewrite

_TRIES = 4


def target_text(questions: Iterable[QuestionQuery], claims: Iterable[ClaimQuery]) -> str:
    """Return records in the form that our rewriter's prompt asks for (Table 8's, with questions).

    A record that needs no search has an empty query.
    """
    asked = [
        f"<Question({one.question})> <NeedSearch({one.need_search})> <Query({_query(one)})>"
        for one in questions
    ]
    said = [
        f"<Claim({one.claim})> <Search({one.need_search})> <Query({_query(one)})>" for one in claims
    ]
    return (
        f"{' '.join(['<Questions>', *asked, '</Questions>'])}\n"
        f"{' '.join(['<Claims>', *said, '</Claims>'])}"
    )


def canonical(read: Rewrite, question: str) -> tuple[str, Rewrite] | None:
    """Return the target of a reply's records, and the records that it reads back to.

    Marks in a text that would end its place in the target are left out. None where no text reads
    back to its records.

    Args:
        read: The records.
        question: The user's question.
    """
    for _ in range(_TRIES):
        text = target_text(read.questions, read.claims)
        again = parse_rewrite(text, question)
        if again == plain(read):
            return text, again
        read = _unmarked(again)
    return None


def plain(read: Rewrite) -> Rewrite:
    """Return the records alone, as a complete reply has them: queries only where one searches."""
    return Rewrite(
        [one._replace(query=_query(one)) for one in read.questions],
        [one._replace(query=_query(one)) for one in read.claims],
        parsed=True,
    )


def _query(one: ClaimQuery | QuestionQuery) -> str:
    return one.query if one.need_search else ""


def _unmarked(read: Rewrite) -> Rewrite:
    """Take the angle brackets and fences out of all texts."""
    return plain(read)._replace(
        questions=[
            QuestionQuery(_bare(one.question), one.need_search, _bare(one.query))
            for one in read.questions
        ],
        claims=[
            ClaimQuery(_bare(one.claim), one.need_search, _bare(one.query)) for one in read.claims
        ],
    )


def _bare(text: str) -> str:
    for mark in ("<", ">", "```", "&lt;", "&gt;"):
        text = text.replace(mark, " ")
    return " ".join(text.split())
