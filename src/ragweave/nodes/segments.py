"""Segments of passages, a few sentences each: split, shown by number, and recomposed of those kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from langchain_core.documents import Document

from ragweave.state import Usage, no_usage
from ragweave.tools.text.normalize import estimate_tokens
from ragweave.tools.text.sentences import split_sentences
from ragweave.tools.text.untrusted import title_of, untrusted


def split_passages(passages: Sequence[Document], size: int = 1) -> list[Document]:
    """Split passages into segments of `size` sentences, ranked in reading order; 0: whole passages."""
    segments: list[Document] = []
    for passage in passages:
        said = [] if size == 0 else list(split_sentences(passage.page_content))
        spans = [(said[at].start, said[at : at + size][-1].end) for at in range(0, len(said), size or 1)]
        for start, end in spans or [(0, len(passage.page_content))]:
            metadata = {**passage.metadata, "rank": len(segments), "start": start}
            segments.append(Document(passage.page_content[start:end], id=passage.id, metadata=metadata))
    return segments


def recompose(passages: Iterable[Document], kept: Iterable[Document]) -> list[Document]:
    """Rebuild passages from the segments kept, in reading order; drop those without any."""
    texts: dict[str, list[str]] = {}
    for segment in sorted(kept, key=lambda one: one.metadata["start"]):
        texts.setdefault(str(segment.id), []).append(segment.page_content)
    return [
        one.model_copy(update={"page_content": " ".join(texts[str(one.id)])})
        for one in passages
        if str(one.id) in texts
    ]


def reranked(passages: Iterable[Document], best: Sequence[Document]) -> list[Document]:
    """Order passages, and their ranks, by their segments, of which the best comes first."""
    places = list(dict.fromkeys(one.id for one in best))
    ordered = sorted(passages, key=lambda one: places.index(one.id))
    return [one.model_copy(update={"metadata": {**one.metadata, "rank": rank}}) for rank, one in enumerate(ordered)]


def tokens_saved(before: Sequence[Document], after: Sequence[Document]) -> Usage:
    """Return how many tokens a filter kept out of the prompt, as usage."""
    sizes = (sum(estimate_tokens(one.page_content) for one in passages) for passages in (before, after))
    return {**no_usage(), "saved_tokens": max(next(sizes) - next(sizes), 0)}


def numbered(label: str, first: int = 1) -> Callable[[Sequence[Document]], str]:
    """Return a function that writes texts as `LABEL 1 : title | text`; no text can forge a number."""
    forged = re.compile(rf"\b({label}s?)\s*(\d+)\s*[:：]", re.I)

    def show(passages: Sequence[Document]) -> str:
        lines = []
        for number, one in enumerate(passages, start=first):
            text = " ".join(untrusted(one.page_content).split())
            shown = f"{title} | {text}" if (title := title_of(one)) else text
            lines.append(f"{label} {number} : " + forged.sub(r"\1 \2 -", shown))
        return "\n".join(lines)

    return show
