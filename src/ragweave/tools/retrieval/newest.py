"""Prefer the newest: of passages that say the same thing at different dates, the newest comes first.

Source: Zhang et al. 2025 (MRAG, arXiv 2412.15540): the time that a question names is read apart from its content, and what
the content finds is ordered by time. Where we differ: no model takes part; documents' own dates count, not the years in
their sentences; only versions of one thing change places; a question that names no time asks for now; and the search
gets the whole question, as a year is often part of a name.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, time
from itertools import combinations

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from ragweave.errors import UsageError
from ragweave.state.passages import heading_of
from ragweave.tools.retrieval.base import PassageRetriever, find_with, known_of
from ragweave.tools.retrieval.reranking import Reranker, RerankRetriever
from ragweave.tools.text.numbers import iso_date, times_in
from ragweave.tools.text.words import terms

_MAX_QUESTION = 2_000
"""Characters of a question in which times are looked for."""
_DEPTH = 4
"""Passages that are searched for versions, for each that is wanted."""
_MAX_MORE = 100
"""Maximum passages that are searched besides those wanted: each is compared with each."""
_SAME_NAME, _ANY_NAME = 0.3, 0.6
"""Least share of their words that versions have in common, if their names are the same, and if not."""
_DRAFTS = frozenset(terms("v version rev revision revised draft final amendment amended addendum update re fwd aw"))
"""Words by which the names of versions may differ; so may numbers."""
_NAME = re.compile(r"[^\W\d_]+")
_UNDATED, _NOW = (moment.replace(tzinfo=UTC) for moment in (datetime.min, datetime.max))
_FILLER = r"\s+(?:(?:the|year|dem|den|des|das|jahre?|le|la|l'an|l'année)\s+)*\Z"
_CHANGE = (
    r"\b(?:before|prior to|vor|avant)\s+(?:the|its|this|der|dem|la)\s+(?:\w+\s+)?"
    r"(?:amendment|revision|reform|änderung|novell|neufassung|révision|réforme|modification)"
)
_BEFORE = re.compile(
    rf"\b(?:before|prior to|earlier than|vor|avant){_FILLER}|{_CHANGE}\w*(?:\s+(?:of|in|from|von|vom|de|du))?{_FILLER}",
    re.IGNORECASE,
)
_SINCE = re.compile(rf"\b(?:after|since|nach|seit|ab|après|depuis|dès){_FILLER}", re.IGNORECASE)
_EARLIER = re.compile(
    rf"{_CHANGE}|\b(?:previous|former|earlier|vorherig|früher|précédent)\w*\s+(?:version|edition|wording|fassung)",
    re.IGNORECASE,
)


class NewestRetriever(PassageRetriever):
    """Asks another retriever for more passages, and lets the newest of several versions take their place."""

    base: BaseRetriever

    def _find(self, query: str, k: int) -> list[Document]:
        return prefer_newest(find_with(self.base, query, k + min((_DEPTH - 1) * k, _MAX_MORE)), query, k)


def arranged(retriever: PassageRetriever, k: int, rerank: Reranker | None, prefer: str | None) -> PassageRetriever:
    """Return a retriever whose passages are reranked and then ordered by date, as far as wanted.

    Raises:
        UsageError: There is no such preference or reranker.
    """
    if prefer not in (None, "", "newest"):
        raise UsageError(f"prefer must be newest, not {prefer!r}")
    if rerank is not None:
        retriever = RerankRetriever.over(retriever, rerank, k=k)
    words = known_of(retriever, "words")
    words = words and NewestRetriever(base=words, k=k)
    return NewestRetriever(base=retriever, k=k, words=words) if prefer else retriever


def prefer_newest(passages: Sequence[Document], query: str, k: int) -> list[Document]:
    """Return k of some ranked passages, the newest of several versions before the others.

    A passage brings its newest version along, which takes its place, or the one that was valid at the time that the
    question names (of several times: one for each). The older ones come last, newest first.
    """
    times, ends = [*map(_time_of, passages)], ends_asked(query)
    versions = _versions(passages, times)

    def valid(at: int, end: datetime | None) -> int:
        """Return the newest version before a time; if there is none, the newest of all."""
        if end is None:
            at = valid(at, _NOW)
            end = times[at]
        best = max(
            (at, *versions[at]),
            key=lambda version: (times[version] < end, times[version], versions[at].get(version, 1)),
        )
        return at if best == at else valid(best, end)

    first: dict[int, None] = {}
    read: dict[int, None] = {}
    for at in range(len(passages)):
        if len(read) < k:
            first |= dict.fromkeys(valid(at, end) for end in ends)
            read |= {at: None, **first}
    older = [at for at in read if at not in first][: max(k - len(first), 0)]
    older.sort(key=times.__getitem__, reverse=True)
    return [passages[at] for at in [*first, *older][:k]]


def ends_asked(question: str) -> list[datetime | None]:
    """Return the ends of the times that a question asks for, excluded; None: the date of the newest version.

    Examples:
        >>> [str(end)[:10] for end in ends_asked("Was galt im März 2020, und was vor 2019?")]
        ['2020-04-01', '2019-01-01']
        >>> [str(end)[:10] for end in ends_asked("Before the amendment of 2021, or vor der Änderung vom 3. März 2020?")]
        ['2021-01-01', '2020-03-03']
    """
    question, ends = question[:_MAX_QUESTION], list[datetime | None]()
    for span in times_in(question):
        end = span.start if _BEFORE.search(span.before) else span.end
        ends.append(_NOW if _SINCE.search(span.before) else datetime.combine(end, time(), UTC))
    return [*dict.fromkeys(ends)] or [None if _EARLIER.search(question) else _NOW]


def _time_of(passage: Document) -> datetime:
    """Return when a passage's date begins."""
    date = iso_date(str(passage.metadata.get("date") or ""))
    if not date:
        return _UNDATED
    moment = datetime.fromisoformat(date if len(date) > 9 else f"{date}-01-01"[:10])
    return moment.replace(tzinfo=moment.tzinfo or UTC)


def _versions(passages: Sequence[Document], times: Sequence[datetime]) -> list[dict[int, float]]:
    """Return the versions of each passage, of other dates, with the share of words that they have in common."""
    texts = [{*terms(doc.page_content)} for doc in passages]
    names = [{*terms(" ".join(_NAME.findall(heading_of(doc.metadata))))} - _DRAFTS for doc in passages]
    versions: list[dict[int, float]] = [{} for _ in passages]
    for at, other in combinations(range(len(passages)), 2):
        if times[at] != times[other] and _UNDATED not in (times[at], times[other]):
            common = len(texts[at] & texts[other])
            shared = common / max(len(texts[at]) + len(texts[other]) - common, 1)
            if shared >= (_SAME_NAME if names[at] == names[other] != set() else _ANY_NAME):
                versions[at][other] = versions[other][at] = shared
    return versions
