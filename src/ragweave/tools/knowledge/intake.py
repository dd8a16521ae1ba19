"""Indexing: files and documents become passages in a draft of the next generation.

`Intake` finds what is new, changed or removed under some paths; `take_documents` adds documents.
Both cut texts into passages (`split`, `cut`) that record their offsets in the source.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from langchain_core.documents import Document

from ragweave.errors import KnowledgeBaseError, UsageError
from ragweave.state.passages import as_document, content_id, whole
from ragweave.tools.knowledge.loaders import files_under, load
from ragweave.tools.knowledge.manifest import Progress, Settings, Skip, counted, printable
from ragweave.tools.knowledge.markup import Loaded, UnreadableError
from ragweave.tools.knowledge.store import Draft, Passage, Source
from ragweave.tools.text.sentences import split_sentences
from ragweave.tools.text.untrusted import short_title

Span = tuple[int, int]
"""Start and end in characters: `text[start:end]`."""

Tokens = Callable[[str], list[Span]]
"""The offsets of a text's tokens."""

_CODES = {
    "arabic": "ar",
    "armenian": "hy",
    "basque": "eu",
    "catalan": "ca",
    "czech": "cs",
    "danish": "da",
    "dutch": "nl",
    "dutch_porter": "nl",
    "english": "en",
    "esperanto": "eo",
    "estonian": "et",
    "finnish": "fi",
    "french": "fr",
    "german": "de",
    "greek": "el",
    "hindi": "hi",
    "hungarian": "hu",
    "indonesian": "id",
    "irish": "ga",
    "italian": "it",
    "lithuanian": "lt",
    "nepali": "ne",
    "norwegian": "no",
    "persian": "fa",
    "polish": "pl",
    "porter": "en",
    "portuguese": "pt",
    "romanian": "ro",
    "russian": "ru",
    "serbian": "sr",
    "sesotho": "st",
    "spanish": "es",
    "swedish": "sv",
    "tamil": "ta",
    "turkish": "tr",
    "yiddish": "yi",
}

_WORD = re.compile(r"\S+")
_TOKEN = re.compile(r"\w+|[^\w\s]")


def simple_tokens(text: str) -> list[Span]:
    """Return runs of word characters and single other characters: tokens without a model."""
    return [match.span() for match in _TOKEN.finditer(text)]


def windows(spans: Sequence[Span], size: int, overlap: int = 0) -> Iterator[Span]:
    """Join `size` spans at a time; neighbours share `overlap` spans, and every span is covered."""
    for first in range(0, max(len(spans) - overlap, min(len(spans), 1)), size - overlap):
        part = spans[first : first + size]
        yield part[0][0], part[-1][1]


def split(text: str, settings: Settings, tokens: Tokens = simple_tokens) -> list[Span]:
    """Return the spans of the passages into which `settings` cut `text`.

    Args:
        text: Any text; white space alone gives no passage.
        settings: `unit`, `size`, `overlap` and `language`.
        tokens: Offsets of the tokens where the unit is tokens.
    """
    if settings.unit == "words":
        spans = [match.span() for match in _WORD.finditer(text)]
    elif settings.unit == "sentences":
        code = _CODES.get(settings.language, "en")
        spans = [(sentence.start, sentence.end) for sentence in split_sentences(text, code)]
    else:
        spans = tokens(text)
    return list(windows(spans, settings.size, settings.overlap))


_OF_A_RUN = {"rank", "score", "query", "position"}


def cut(
    loaded: Loaded, source: str, place: int, settings: Settings, tokens: Tokens
) -> Iterator[Passage]:
    """Cut a text into passages.

    A passage's id is the text's own (`id#n` where it is cut into several), else its content id.

    Args:
        loaded: The text.
        source: How passages cite it.
        place: Place of the first passage within the source.
        settings: How to cut.
        tokens: Offsets of tokens where the unit is tokens.
    """
    spans = split(loaded.text, settings, tokens)
    loaded = _bounded(loaded, several=len(spans) > 1)
    for number, (start, end) in enumerate(spans):
        text = loaded.text[start:end]
        content = content_id(text, loaded.title)
        own = loaded.id if len(spans) == 1 else f"{loaded.id}#{number}"
        page = loaded.page_at(start)
        meta: dict[str, Any] = {**loaded.metadata, "source": source, "title": loaded.title}
        meta |= {"start": start, "end": end} | ({} if page is None else {"page": page})
        yield Passage(
            own if loaded.id and own else content, content, loaded.id, place + number, text, meta
        )


_LONGEST_VALUE = 2_000
"""Characters of a field that stands with each passage of a text that is cut up."""


def _bounded(loaded: Loaded, *, several: bool) -> Loaded:
    """Cut a title and leave out fields that are too long to stand with each of many passages."""
    kept = loaded.metadata
    if several:
        kept = {key: one for key, one in kept.items() if len(str(one)) <= _LONGEST_VALUE}
    return replace(loaded, title=short_title(loaded.title), metadata=kept)


@dataclass
class Intake:
    """Indexes the files under some paths into a draft, and counts them."""

    folder: Path | None
    """The knowledge base's own, which is left out; None: it is in no folder."""
    settings: Settings
    tokens: Tokens
    progress: Progress
    counts: Counter[str] = field(default_factory=Counter)
    """Files by `added`, `changed`, `removed`, `unchanged`."""
    skips: list[Skip] = field(default_factory=list)
    _denied: list[str] = field(default_factory=list)
    """Folders that cannot be listed this time, absolute."""

    def take_paths(self, draft: Draft, paths: Sequence[Path]) -> None:
        """Add what is new or changed under `paths`, remove what no longer exists under them.

        Raises:
            KnowledgeBaseError: A path does not exist and was never indexed.
        """
        known = draft.sources("file")
        roots = [_absolute(path) for path in paths]
        files = self._files(paths, known)
        for key in known:
            gone = key not in files and any(_under(key, root) for root in roots)
            if gone and not any(_under(key, folder) for folder in self._denied):
                draft.remove_source(key)
                self.counts["removed"] += 1
        for number, (key, path) in enumerate(files.items(), 1):
            self._take_file(draft, known.get(key), key, path)
            self.progress("read", number, len(files))

    def _files(self, paths: Sequence[Path], known: dict[str, Source]) -> dict[str, Path]:
        """Return the files under `paths` by key, in order of the paths given."""
        files: dict[str, Path] = {}
        for path in paths:
            root = _absolute(path)
            try:
                path.lstat()
            except (FileNotFoundError, NotADirectoryError, ValueError):
                if not any(_under(key, root) for key in known):
                    raise KnowledgeBaseError(f"no such file or folder: {printable(path)}") from None
                continue
            except OSError as error:
                self._deny(Skip(str(path), error.strerror or str(error)), known)
                continue
            for found in files_under(path, leave_out=self._own_place(path)):
                if isinstance(found, Skip):
                    self._deny(found, known)
                else:
                    files.setdefault(_absolute(found), found)
        return files

    def _deny(self, skip: Skip, known: dict[str, Source]) -> None:
        """Report a folder that cannot be listed this time; its indexed files stay."""
        root = _absolute(Path(skip.path))
        held = sum(_under(key, root) for key in known)
        stays = f"; {counted(held, 'indexed file')} of it stay{'s' * (held == 1)}" if held else ""
        self.skips.append(replace(skip, reason=f"{skip.reason}{stays}"))
        self._denied.append(root)

    def _own_place(self, path: Path) -> Path | None:
        """Return the knowledge base's folder as a walk from `path` meets it."""
        if self.folder is None:
            return None
        own, root = Path(_absolute(self.folder)), Path(_absolute(path))
        return path / own.relative_to(root) if own.is_relative_to(root) else own

    def _take_file(self, draft: Draft, before: Source | None, key: str, path: Path) -> None:
        if not _named_in_utf8(key):
            self.skips.append(Skip(str(path), "its path is not UTF-8; rename it"))
            return
        try:
            now = _state(key, path, before)
        except OSError as error:
            self._lose(draft, before, Skip(str(path), error.strerror or str(error)))
            return
        if before is not None and now.hash == before.hash:
            if now != before:
                draft.touch(now)
            self.counts["unchanged"] += 1
            self.skips.extend(before.skips)
            return
        try:
            with draft.attempt():
                draft.remove_source(key)
                skips = self._read(draft, now, path)
        except UnreadableError as error:
            self._lose(draft, before, Skip(str(path), str(error)))
            return
        draft.add_source(replace(now, skips=tuple(skips)))
        self.skips.extend(skips)
        self.counts["added" if before is None else "changed"] += 1

    def _read(self, draft: Draft, source: Source, path: Path) -> list[Skip]:
        skips: list[Skip] = []
        place = 0
        for one in load(path, self.settings):
            if isinstance(one, Skip):
                skips.append(one)
            else:
                passages = cut(one, source.name, place, self.settings, self.tokens)
                place += len(draft.add_passages(source.key, passages))
        if not place and not skips:
            raise UnreadableError("empty")
        return skips

    def _lose(self, draft: Draft, before: Source | None, skip: Skip) -> None:
        """Report a file that cannot be read; its earlier content leaves the index."""
        self.skips.append(skip)
        if before is not None:
            draft.remove_source(before.key)
            self.counts["removed"] += 1


def take_documents(
    draft: Draft,
    documents: Iterable[Document],
    source: str | None,
    settings: Settings,
    tokens: Tokens,
) -> list[str]:
    """Add documents and return the ids of their passages, in order.

    A document with the id of one in the same source replaces it; one whose content the source
    already has changes nothing.

    Raises:
        UsageError: A document has no text.
    """
    ids: list[str] = []
    known = set(draft.sources("added"))
    for doc in map(as_document, documents):
        if not doc.page_content.strip():
            raise UsageError(f"document {doc.id or len(ids)} has no text")
        name = whole(str(doc.metadata.get("source") or "added") if source is None else source)
        key = f"added:{name}"
        if key not in known:
            known.add(key)
            draft.add_source(Source(key, name, "added"))
        loaded = Loaded(
            doc.page_content,
            whole(str(doc.metadata.get("title") or "")),
            doc.id,
            {key: value for key, value in doc.metadata.items() if key not in _OF_A_RUN},
        )
        passages = list(cut(loaded, name, draft.next_place(key), settings, tokens))
        held = [found for one in passages if (found := draft.held(key, one))]
        if len(held) == len(passages):
            ids.extend(held)
            continue
        if doc.id:
            draft.remove_documents([doc.id], key)
        ids.extend(draft.add_passages(key, passages))
    return ids


def _state(key: str, path: Path, before: Source | None) -> Source:
    """Return the file's state; its hash is only computed again if size or time changed.

    It keeps the name that it was first indexed under, whatever folder it is indexed from later.
    """
    stat = path.stat()
    same = before is not None and (before.size, before.mtime) == (stat.st_size, stat.st_mtime_ns)
    digest = before.hash if before is not None and same else _digest(path)
    name = path.as_posix() if before is None else before.name
    return Source(
        key, name, "file", stat.st_size, stat.st_mtime_ns, digest, before.skips if before else ()
    )


def _digest(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _absolute(path: Path) -> str:
    return os.path.abspath(path)  # noqa: PTH100 - links stay as they are


def _named_in_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _under(key: str, root: str) -> bool:
    return key == root or Path(key).is_relative_to(root)
