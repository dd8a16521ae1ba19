"""Labels for the query rewriter: a teacher's claims and queries, checked and repaired.

Source: SlimPLM, section 3.3, appendix A and Table 8. What a rewriter learns to write has one
canonical form, which reads back to the same records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ragweave.errors import UsageError
from ragweave.tools.claims import ClaimQuery, QuestionQuery, Rewrite, parse_rewrite
from ragweave.tools.models import ChatModel
from ragweave.trained import PartRole
from ragweave.training.labels.labeler import CachedCall, DroppedRow, LabelledRow, RowLabel
from ragweave.training.labels.models import Drafts, Teacher, named_model
from ragweave.training.labels.rules import (
    BrokenRule,
    annotation,
    draft_field,
    is_annotated,
    record_violations,
    reply_violations,
)
from ragweave.training.labels.source import InvalidRow, Item

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


_MOST_LEFT_OUT = 0.5
"""Share of a reply's records that may be left out; with more, the reply is not worth learning."""
_TOLD = 12
"""Errors that a teacher is told at a time."""


class Checked(NamedTuple):
    """A reply with what is wrong with it."""

    read: Rewrite
    """Its records."""
    whole: list[BrokenRule]
    """Errors of the reply."""
    records: list[list[BrokenRule]]
    """Errors of its questions, then its claims."""

    @property
    def errors(self) -> list[BrokenRule]:
        """All errors."""
        return [*self.whole, *(error for one in self.records for error in one)]


def checked(read: Rewrite, question: str, draft: str, *, cut: bool = False) -> Checked:
    """Check a reply against the paper's rules."""
    listed: list[ClaimQuery | QuestionQuery] = [*read.questions, *read.claims]
    records = [list(record_violations(one, question, draft)) for one in listed]
    return Checked(read, reply_violations(read, draft, cut=cut), records)


class RewriteLabeler:
    """Makes rewriter rows: by a teacher, or of annotations that the file has."""

    role: PartRole = "rewriter"
    needs_gold = False

    def __init__(
        self,
        *,
        teacher: ChatModel | None = None,
        teacher_spec: str = "",
        proxy: ChatModel | None = None,
        proxy_spec: str = "",
        draft: str | None = None,
    ) -> None:
        """Set who annotates and who drafts.

        Args:
            teacher: The model that annotates; None: the file holds SlimPLM's annotations.
            teacher_spec: What is written down of it.
            proxy: The model that drafts answers.
            proxy_spec: What is written down of it.
            draft: The field of drafts that the file has; annotations may go without it, since
                they name theirs.

        Raises:
            UsageError: There is a teacher, and neither drafts nor what writes them.
        """
        if teacher is None and proxy is not None:
            raise UsageError("the file's own annotations go with its own drafts: leave out --proxy")
        self._teacher = Teacher(teacher) if teacher is not None else None
        self._annotator = "the file's"
        if teacher is not None:
            self._annotator = named_model(teacher, teacher_spec)
        self._drafts = None
        if teacher is not None or draft is not None:
            self._drafts = Drafts(proxy, proxy_spec, draft)

    def settings(self) -> dict[str, Any]:
        """Return what bears on the rows."""
        drafts = self._drafts.described if self._drafts else {}
        return {"annotation": self._annotator, **drafts}

    def check(self, item: Item) -> InvalidRow | None:
        """Say what is wrong with a row."""
        fields = item.row.fields
        if self._teacher is None and not is_annotated(fields):
            error = item.row.error("has no annotation (claims and questions): give --teacher MODEL")
            return InvalidRow(item.index, item.data, "no annotation", str(error))
        if self._drafts is not None:
            return self._drafts.check(item)
        if not isinstance(fields.get(draft_field(fields) or ""), str):
            error = item.row.error("has claims but no draft: name the draft's field with --draft")
            return InvalidRow(item.index, item.data, "no draft", str(error))
        return None

    async def make(self, item: Item, call: CachedCall) -> LabelledRow | DroppedRow:
        """Make the row."""
        draft = await self._draft(item, call)
        if not draft:
            return DroppedRow("an empty draft, which has no claims")
        how: dict[str, Any] = dict(self.settings())
        if self._teacher is None:
            found = checked(annotation(item.row.fields), item.text, draft)
        else:
            found, asked_again = await self._annotated(item, draft, call)
            how["repaired"] = asked_again
        return _row(item, draft, found, how)

    def rows_to_drop(self, labels: Sequence[RowLabel]) -> Mapping[int, str]:
        """Leave nothing out."""
        del labels
        return {}

    def count(self, row: Mapping[str, Any]) -> Mapping[str, int]:
        """Count claims and questions, what was repaired and what was left out."""
        read = parse_rewrite(row["target"], row["question"])
        source = row["source"]
        return {
            "questions": len(read.questions),
            "claims": len(read.claims),
            "repaired": int(source.get("repaired", False)),
            **{f"left out: {kind}": number for kind, number in source["left_out"].items()},
        }

    async def _draft(self, item: Item, call: CachedCall) -> str:
        if self._drafts is not None:
            return await self._drafts.of(item, call)
        return str(item.row.fields[draft_field(item.row.fields) or ""]).strip()

    async def _annotated(self, item: Item, draft: str, call: CachedCall) -> tuple[Checked, bool]:
        """Ask the teacher, and once more where a rule is broken; return the better reply."""
        teacher = self._teacher
        if teacher is None:
            raise UsageError("there is no teacher")
        reply = await call("reply", lambda: teacher.annotate(item.text, draft))
        first = self._read(item, draft, reply)
        if not first.errors:
            return first, False
        listed = "\n".join(error.text for error in first.errors[:_TOLD])
        again = await call(
            "repair", lambda: teacher.annotate(item.text, draft, reply["text"], listed)
        )
        second = self._read(item, draft, again)
        return (second, True) if _weight(second) <= _weight(first) else (first, True)

    @staticmethod
    def _read(item: Item, draft: str, reply: Mapping[str, Any]) -> Checked:
        read = parse_rewrite(reply["text"], item.text)
        return checked(read, item.text, draft, cut=bool(reply["cut"]))


def _weight(found: Checked) -> tuple[int, int]:
    """Return how bad a reply is: hard errors of the whole, then all other errors."""
    hard = sum(error.hard for error in found.whole)
    return hard, len(found.errors) - hard


def _row(item: Item, draft: str, found: Checked, how: dict[str, Any]) -> LabelledRow | DroppedRow:
    """Return the row of what no hard error speaks against, or why there is none."""
    for error in found.whole:
        if error.hard:
            return DroppedRow(error.kind)
    kinds = [next((error.kind for error in one if error.hard), None) for one in found.records]
    if not kinds:
        return DroppedRow("neither claims nor questions")
    left_out = Counter(kind for kind in kinds if kind)
    if left_out.total() > _MOST_LEFT_OUT * len(kinds):
        return DroppedRow(f"mostly {left_out.most_common(1)[0][0]}")
    questions = found.read.questions
    kept = Rewrite(
        [one for one, kind in zip(questions, kinds, strict=False) if kind is None],
        [
            one
            for one, kind in zip(found.read.claims, kinds[len(questions) :], strict=True)
            if kind is None
        ],
        parsed=True,
    )
    done = canonical(kept, item.text)
    if done is None:
        return DroppedRow("no record parses back from the target")
    text, records = done
    if not records.questions and not records.claims:
        return DroppedRow("nothing but the question itself")
    row = {"id": item.id, "question": item.text, "draft": draft, "target": text}
    return LabelledRow(row, {**how, "left_out": dict(sorted(left_out.items()))})
