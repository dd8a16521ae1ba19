"""Labels for the query rewriter: a teacher's claims and queries, checked.

Source: Tan et al. 2024 (SlimPLM), section 3.3, appendix A and the rules of table 8. The limits are ours, set so that
next to none of the authors' own GPT-4 annotations (1,006 claims) breaks them. If a reply breaks a rule, the teacher
is asked once more; a record that still does is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from ragweave.datasets import Question
from ragweave.errors import UsageError
from ragweave.evaluation.ask import ask
from ragweave.evaluation.folder import Record
from ragweave.evaluation.labels.known import Drafts
from ragweave.evaluation.labels.settings import LabelSettings, dropped, row
from ragweave.nodes.proxy import PROMPTS, Rewrite, Searched
from ragweave.tools.text.normalize import words
from ragweave.tools.text.untrusted import untrusted

MAX_WORDS = 40
"""Words of a claim that is still brief."""
MIN_SUPPORT = 0.5
"""The share of a claim's words of meaning that must stand in the draft or the question."""
_MOST_LEFT_OUT = 0.5
"""The share of records that may be left out of a row."""
RELEASED = "_without_search_answer"
"""How the fields of drafts end in SlimPLM's released files; that of their claims begins alike, and ends so:"""
_CLAIMS = "_claims"

_PRONOUN_WORDS = "he she it they this that these those his her hers its their theirs him them"
_PRONOUNS = frozenset(_PRONOUN_WORDS.split())
_OTHER_WORDS = """a an the of in on at to for and or but so is are was were be been being by with from as into has have
had do does did not no nor than then there here also however therefore when while who whom whose which what where why
how will would can could should may might must shall if because about after before during over under i we you my our
your"""
_FUNCTION_WORDS = frozenset(_OTHER_WORDS.split())
_EMPTY_IT = re.compile(
    r"it(?:['’]s| is| was| seems| takes| took| rains)\b.{0,40}\b(?:that|to|for|whether|hours?|years?)\b", re.I
)


@dataclass(frozen=True)
class Fault:
    """A rule that a record breaks."""

    kind: str
    text: str
    """What the teacher is shown."""


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


def faults(one: Searched, question: str, draft: str, *, claim: bool) -> Iterator[Fault]:
    """Yield what is wrong with a claim of the draft, or with a question (table 8)."""
    shown = f"- {'claim' if claim else 'question'} {one.text!r}"
    if pronoun := _leading_pronoun(one.text, claim=claim):
        yield Fault("a pronoun", f"{shown} begins with {pronoun!r}: put the name in its place")
    if one.needs_search and one.query and support(one.query, f"{one.text} {question}") == 0:
        yield Fault("a query off topic", f"{shown} has a query about something else: {one.query!r}")
    if claim and len(one.text.split()) > MAX_WORDS:
        yield Fault("a long claim", f"{shown} is too long: split it, one statement a claim")
    if claim and support(one.text, f"{draft} {question}") < MIN_SUPPORT:
        yield Fault("a claim that is not in the draft", f"{shown} says what the draft does not say")


def _leading_pronoun(text: str, *, claim: bool) -> str:
    """Return the pronoun that stands before any name or noun; "" if none does."""
    if claim and _EMPTY_IT.match(text):
        return ""
    for word in words(text):
        if word in _PRONOUNS:
            return word if claim or word not in ("it", "its", "this", "that", "these", "those") else ""
        if word not in _FUNCTION_WORDS:
            return ""
    return ""


def support(text: str, basis: str) -> float:
    """Return the share of a text's words of meaning that stand in another, 0 to 1; 1 if it has none.

    Scripts without spaces are compared by pairs of letters.
    """
    wanted, there = list(_units(text)), set(_units(basis))
    return sum(one in there for one in wanted) / len(wanted) if wanted else 1.0


def _units(text: str) -> Iterator[str]:
    for word in words(text):
        if any(ord(sign) > 0x2E80 for sign in word):
            yield from (word[at : at + 2] for at in range(max(1, len(word) - 1)))
        elif word not in _FUNCTION_WORDS and word not in _PRONOUNS:
            yield word.removesuffix("'s").removesuffix("’s")


class RewriteLabeller:
    """Labels drafts with their claims and queries: by a teacher, or as the file's annotations have them."""

    name = "rewrite"

    def __init__(self, settings: LabelSettings, models: Mapping[str, Any]) -> None:
        """Take the settings and the models: `teacher` and `proxy`, unless the rows hold annotations and drafts.

        Raises:
            UsageError: There is a teacher, and nobody drafts.
        """
        self._teacher = models.get("teacher")
        self._drafts = Drafts(settings, models) if self._teacher is not None or settings.draft else None
        if self._teacher is None and "proxy" in models:
            raise UsageError("the file's own annotations go with its own drafts: leave out the proxy")

    async def __call__(self, question: Question) -> Record:
        """Label one question."""
        draft = await self._drafts.of(question) if self._drafts else _released_draft(question.about)
        if not draft:
            return dropped("no draft")
        found = await self._annotated(question, draft) if self._teacher is not None else annotation(question.about)
        if found is None:
            return dropped("no annotation" if self._teacher is None else "a reply that cannot be read")
        return _row(question, draft, found)

    async def _annotated(self, question: Question, draft: str) -> Rewrite | None:
        """Ask the teacher, and once more if a rule is broken; return the better reply."""
        messages = PROMPTS["rewrite"].format_messages(question=question.question, draft=untrusted(draft))
        first = await ask(self._teacher, Rewrite, messages)  # type: ignore[arg-type]
        wrong = _all_faults(first, question, draft) if first else []
        if first is None or not wrong:
            return first
        listed = "\n".join(one.text for one in wrong[:12])
        again: list[BaseMessage] = [
            *messages,
            AIMessage(target_text(first)),
            HumanMessage(
                f"That breaks the rules:\n{listed}\nWrite all of it again in the same format, without these faults."
            ),
        ]
        second = await ask(self._teacher, Rewrite, again)  # type: ignore[arg-type]
        return second if second and len(_all_faults(second, question, draft)) <= len(wrong) else first


def _all_faults(found: Rewrite, question: Question, draft: str) -> list[Fault]:
    return [
        *(fault for one in found.questions for fault in faults(one, question.question, draft, claim=False)),
        *(fault for one in found.claims for fault in faults(one, question.question, draft, claim=True)),
    ]


def _row(question: Question, draft: str, found: Rewrite) -> Record:
    """Return the row of the records that break no rule, or why there is none."""

    def sound(records: Sequence[Searched], *, claim: bool) -> list[Searched]:
        return [one for one in records if not any(faults(one, question.question, draft, claim=claim))]

    kept = Rewrite.model_construct(
        questions=sound(found.questions, claim=False), claims=sound(found.claims, claim=True)
    )
    count, total = len(kept.questions) + len(kept.claims), len(found.questions) + len(found.claims)
    if not count or total - count > _MOST_LEFT_OUT * total:
        return dropped("no sound claims")
    return row(id=question.id, question=question.question, draft=draft, target=target_text(kept))


def _released_draft(fields: Mapping[str, Any]) -> str:
    """Return the draft that the claims of a released row were split from."""
    claims = _claims_field(fields)
    names = [name for name in fields if name.endswith(RELEASED) and claims.startswith(name.removesuffix("answer"))]
    return str(fields[names[0]]).strip() if names else ""


def _claims_field(fields: Mapping[str, Any]) -> str:
    return next((name for name, value in fields.items() if name.endswith(_CLAIMS) and isinstance(value, list)), "")


def annotation(fields: Mapping[str, Any]) -> Rewrite | None:
    """Return the annotation of a row of SlimPLM's released files; None if it has none.

    A record without a query has its own text for one, unless it needs no search.
    """
    claims, questions = _claims_field(fields), fields.get("questions")
    if not claims or not isinstance(questions, list):
        return None
    return Rewrite.model_construct(
        questions=_records(questions, "question", "searchWord"), claims=_records(fields[claims], "claim", "query")
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
