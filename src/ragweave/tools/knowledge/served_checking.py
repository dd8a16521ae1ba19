"""Verifying a knowledge base behind an address: its rows, their hashes, words and vectors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from langchain_core.embeddings import Embeddings

from ragweave.state.passages import content_id, heading_of
from ragweave.tools.knowledge.analysis import outdated
from ragweave.tools.knowledge.draft import Draft, titled
from ragweave.tools.knowledge.embedding import (
    check_dimension,
    embed_texts,
    embeddings_of,
    tokenizer_of,
)
from ragweave.tools.knowledge.intake import Intake
from ragweave.tools.knowledge.manifest import Finding, Manifest, Progress, counted
from ragweave.tools.knowledge.served import Served, read_served
from ragweave.tools.knowledge.served_writing import (
    ServedWriter,
    chunks,
    is_left_over,
    sources_prefix,
)
from ragweave.tools.retrieval.bm25 import ANALYSIS
from ragweave.tools.stores import Address, Held, PassageStore, Row
from ragweave.tools.stores.lease import Lease, writing_to
from ragweave.tools.stores.passage_store import MANIFEST

_BATCH = 64


def check_served(place: Address) -> list[Finding]:
    """Verify a knowledge base; return the problems.

    Raises:
        KnowledgeBaseError: The store does not answer, there is no knowledge base, or it is being
            written.
    """
    home = Served(place)
    try:
        manifest = home.manifest
        with writing_to(home.store):
            return list(_examined(home.store, manifest).findings())
    finally:
        home.close()


def repair_served(
    place: Address,
    findings: Sequence[Finding],
    embeddings: Embeddings | None = None,
    progress: Progress | None = None,
) -> int:
    """Repair what `check_served` found; return how many passages were embedded.

    Rows without words or vector, or with words as earlier versions split them, get them in place,
    vectors only where the model is at hand; files whose passages do not match their hashes are
    read again where they still exist; what an interrupted write left is deleted.
    """
    home = Served(place)
    try:
        manifest = home.manifest
        model = embeddings_of(place, manifest, embeddings)
        with writing_to(home.store) as lease:
            mended = _mend(home.store, home.manifest, model, lease)
        files = [Path(key) for one in findings for key in one.sources if Path(key).is_file()]
        report = progress or (lambda _stage, _done, _total: None)
        tokens = tokenizer_of(manifest, model)
        intake = Intake(home.own_folder, manifest.settings, tokens, report)

        def change(draft: Draft) -> None:
            for file in files:
                draft.mark_stale(str(file))
            if files:
                intake.take_paths(draft, files)

        writer = ServedWriter(home.store, model, progress, manifest.collection)
        return mended + writer.write(change, rebuild=True)[1].embedded
    finally:
        home.close()


@dataclass
class _Examined:
    """What a look at every row of a store has shown."""

    manifest: Manifest
    sources: int
    """Sources that the current generation's records list."""
    ids: set[str] = field(default_factory=set)
    dead: int = 0
    wrong: dict[str, int] = field(default_factory=dict)
    """Passages by source whose text does not match its hash."""
    wordless: int = 0
    outdated: int = 0
    vectorless: int = 0

    def findings(self) -> Iterator[Finding]:
        """Return the problems."""
        held = {
            "passages": (self.manifest.passages, len(self.ids)),
            "sources": (self.manifest.sources, self.sources),
        }
        for what, (told, found) in held.items():
            if told != found:
                yield Finding(f"the manifest counts {told} {what}, the store {found}")
        if self.dead:
            yield Finding(f"{counted(self.dead, 'row')} left by an interrupted write")
        number = sum(self.wrong.values())
        if number:
            verb = "does not match its hash" if number == 1 else "do not match their hashes"
            yield Finding(f"{counted(number, 'passage')} {verb}", tuple(sorted(self.wrong)))
        if self.wordless:
            yield Finding(f"{counted(self.wordless, 'passage')} without the words of its text")
        if self.outdated:
            yield Finding(
                f"{counted(self.outdated, 'passage')} with terms as earlier versions made them, of "
                "marks and ligatures"
            )
        if self.vectorless:
            verb = "has" if self.vectorless == 1 else "have"
            yield Finding(f"{counted(self.vectorless, 'passage')} {verb} no vector of its own")


def _examined(store: PassageStore, manifest: Manifest) -> _Examined:
    names = store.records(sources_prefix(manifest))
    listed = sum(len((store.record(name) or {}).get("sources", ())) for name in names)
    found = _Examined(manifest, listed)
    for row in store.held() if manifest.generation else ():
        if is_left_over(row.key, manifest):
            found.dead += 1
        elif row.key.removed > manifest.generation:
            found.ids.add(row.key.id)
            _examine(found, store, row)
    return found


def _examine(found: _Examined, store: PassageStore, row: Held) -> None:
    if content_id(row.text, heading_of(json.loads(row.metadata))) != row.key.content:
        found.wrong[row.key.source] = found.wrong.get(row.key.source, 0) + 1
    found.wordless += not _has_words(store, found.manifest, row)
    found.outdated += _outdated(found.manifest, row)
    found.vectorless += not _has_vector(found.manifest, row)


def _has_words(store: PassageStore, manifest: Manifest, row: Held) -> bool:
    return row.words == store.distinct(_terms(manifest, row))


def _has_vector(manifest: Manifest, row: Held) -> bool:
    return manifest.embedding_name is None or row.dimension == manifest.dimension


def _is_whole(store: PassageStore, manifest: Manifest, row: Held) -> bool:
    return _has_words(store, manifest, row) and _has_vector(manifest, row)


def _terms(manifest: Manifest, row: Held) -> list[str]:
    return manifest.analyzer.terms(titled(row.text, row.metadata))


def _outdated(manifest: Manifest, row: Held) -> bool:
    return outdated(manifest, titled(row.text, row.metadata))


def _mend(store: PassageStore, manifest: Manifest, model: Embeddings | None, lease: Lease) -> int:
    """Store words and vectors anew where they are missing or old; return how many were embedded.

    A passage whose vector is lost stays without one where there is no model.
    """
    embedded = 0
    today = replace(manifest, analysis=ANALYSIS)
    rows = store.held() if manifest.generation else iter(())
    lost = [
        row
        for row in rows
        if row.key.removed > manifest.generation
        and not is_left_over(row.key, manifest)
        and (_outdated(manifest, row) or not _is_whole(store, manifest, row))
    ]
    for part in chunks(iter(lost), _BATCH):
        vectors: dict[str, list[float]] = {}
        if manifest.embedding_name is not None:
            vectors = _stored(store, manifest, part)
            made = _embedded(
                store, manifest, model, [r for r in part if r.key.content not in vectors]
            )
            vectors |= made
            embedded += len(made)
        mended = [Row(*row[:3], _terms(today, row), vectors.get(row.key.content)) for row in part]
        lease.check()
        store.put(mended)
    if manifest != today:
        lease.check()
        store.put_record(MANIFEST, today.to_json())
    return embedded


def _stored(
    store: PassageStore, manifest: Manifest, rows: Sequence[Held]
) -> dict[str, list[float]]:
    """Return the vectors by content that the store has of these rows."""
    found = store.vectors([row.key.content for row in rows])
    return {key: vector for key, vector in found.items() if len(vector) == manifest.dimension}


def _embedded(
    store: PassageStore, manifest: Manifest, model: Embeddings | None, rows: Sequence[Held]
) -> dict[str, list[float]]:
    """Return new vectors by content, or none without a model."""
    if model is None or not rows:
        return {}
    texts = {row.key.content: titled(row.text, row.metadata) for row in rows}
    vectors = embed_texts(model, list(texts.values()), manifest, "try again")
    check_dimension(store.address, manifest, vectors)
    return dict(zip(texts, vectors, strict=True))


def drop_served(place: Address) -> int:
    """Delete a knowledge base with all its passages; return how many there were.

    Raises:
        KnowledgeBaseError: The store does not answer, there is no knowledge base, or it is being
            written.
    """
    home = Served(place)
    try:
        passages = read_served(home.store).passages
        with writing_to(home.store):
            home.store.drop()
        return passages
    finally:
        home.close()
