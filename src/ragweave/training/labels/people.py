"""Sentences that people chose.

QED's and CLAPNQ's selected sentences, the supporting facts of HotpotQA and 2Wiki, and the gold
evidence of Fool Me Twice, whose passages are such pieces already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

from ragweave.state.passages import with_id
from ragweave.tools.filters import Span, spans_of
from ragweave.training.labels.source import Item


def chosen_spans(item: Item, passages: Sequence[Document]) -> list[Span] | None:
    """Return the sentences that people chose, in passage and reading order.

    None where the row holds no such choice; empty where nobody chose any of these passages'.
    Offsets are those of the data set's own sentences, without white space around them.

    Args:
        item: The question.
        passages: The passages whose sentences are wanted; those of the data set.
    """
    fields = item.row.fields
    if "supporting_facts" in fields and "context" in fields:
        chosen = _facts(fields)
    elif "sentence_starts" in fields and "annotation" in fields:
        chosen = _explanation(fields)
    elif "output" in fields and "passages" in fields:
        chosen = _selected(fields)
    elif isinstance(fields.get("gold_evidence"), list):
        chosen = [(None, str(one.get("text") or "")) for one in fields["gold_evidence"]]
    else:
        return None
    spans: list[Span] = []
    for passage in map(with_id, passages):
        found = {(start, end) for text in chosen for start, end in _places(passage, text)}
        spans.extend(_span(passage, start, end) for start, end in sorted(found))
    return spans


def holds_choice(item: Item) -> bool:
    """Tell whether a row says which sentences people chose."""
    return chosen_spans(item, []) is not None


def _facts(fields: Mapping[str, Any]) -> list[tuple[str | None, str]]:
    """Return title and text of the supporting sentences."""
    wanted = {(str(title), int(number)) for title, number in fields["supporting_facts"]}
    return [
        (str(title), str(sentence))
        for title, sentences in fields["context"]
        for number, sentence in enumerate(sentences)
        if (str(title), number) in wanted
    ]


def _explanation(fields: Mapping[str, Any]) -> list[tuple[str | None, str]]:
    """Return QED's selected sentence; questions that no single sentence explains have none."""
    marked = fields["annotation"].get("selected_sentence") or {}
    start, end = marked.get("start"), marked.get("end")
    if not isinstance(start, int) or not isinstance(end, int) or end <= start:
        return []
    return [(None, str(fields["paragraph_text"])[start:end])]


def _selected(fields: Mapping[str, Any]) -> list[tuple[str | None, str]]:
    """Return the sentences that any annotator of CLAPNQ selected."""
    texts = (text for one in fields["output"] for text in one.get("selected_sentences") or ())
    return [(None, str(text)) for text in dict.fromkeys(texts)]


def _places(passage: Document, chosen: tuple[str | None, str]) -> Iterator[tuple[int, int]]:
    """Yield where a chosen sentence stands in a passage: nowhere, or its first place."""
    title, text = chosen[0], chosen[1].strip()
    if not text or (title is not None and title != passage.metadata.get("title")):
        return
    start = passage.page_content.find(text)
    if start >= 0:
        yield start, start + len(text)


def _span(passage: Document, start: int, end: int) -> Span:
    whole = spans_of([passage], "passage")[0]
    return {
        **whole,
        "start": start,
        "end": end,
        "text": passage.page_content[start:end],
        "score": 1.0,
    }
