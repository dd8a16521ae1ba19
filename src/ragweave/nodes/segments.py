"""Fewer tokens: passages are recomposed from the segments that a filter keeps, or limited to a budget."""

from collections.abc import Iterable, Sequence
from itertools import accumulate

from langchain_core.documents import Document

from ragweave.state import RAGState, no_usage, note
from ragweave.state.passages import with_ranks
from ragweave.tools.text.words import estimate_tokens, split_sentences


def split_passages(passages: Sequence[Document], size: int = 1) -> list[Document]:
    """Split passages into segments of `size` sentences, ranked in reading order; 0: whole passages."""
    segments: list[Document] = []
    for passage in passages:
        sentences = [] if size == 0 else list(split_sentences(passage.page_content))
        spans = [(sentences[at].start, sentences[at : at + size][-1].end) for at in range(0, len(sentences), size or 1)]
        for start, end in spans or [(0, len(passage.page_content))]:
            metadata = {**passage.metadata, "rank": len(segments), "start": start}
            segments.append(Document(passage.page_content[start:end], id=passage.id, metadata=metadata))
    return segments


def reranked(passages: Iterable[Document], best: Sequence[Document]) -> list[Document]:
    """Order passages, and their ranks, by their segments, of which the best comes first."""
    places = list(dict.fromkeys(segment.id for segment in best))
    return with_ranks(sorted(passages, key=lambda doc: places.index(doc.id)))


def within_budget(
    passages: Sequence[Document], max_tokens: int | None, max_passages: int | None = None
) -> list[Document]:
    """Return the best-ranked passages within a budget of tokens, at least one, in the order given."""
    best = sorted(range(len(passages)), key=lambda place: int(passages[place].metadata["rank"]))[:max_passages]
    sums = accumulate(estimate_tokens(passages[place].page_content) for place in best)
    places = best[: max(sum(max_tokens is None or tokens <= max_tokens for tokens in sums), 1)]
    return [passage for place, passage in enumerate(passages) if place in places]


def recomposed(state: RAGState, segments: Sequence[Document], *, may_be_none: bool = False) -> RAGState:
    """Return the update that rebuilds the passages from the segments kept, and counts the tokens that this saves.

    A passage's segments are in reading order, and one without any is dropped. Without any segment all passages stay,
    unless `may_be_none`.
    """
    texts: dict[str, list[str]] = {}
    for segment in sorted(segments, key=lambda segment: segment.metadata["start"]):
        texts.setdefault(str(segment.id), []).append(segment.page_content)
    passages = state["passages"]
    if segments or may_be_none:
        kept = [doc for doc in passages if str(doc.id) in texts]
        passages = [doc.model_copy(update={"page_content": " ".join(texts[str(doc.id)])}) for doc in kept]
    before, after = (sum(estimate_tokens(doc.page_content) for doc in docs) for docs in (state["passages"], passages))
    notes = [] if segments else [note("filter_kept_nothing")]
    return {"passages": passages, "usage": {**no_usage(), "saved_tokens": max(before - after, 0)}, "notes": notes}
