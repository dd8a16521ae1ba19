"""Indexing: files become passages in a draft of the next generation.

`Intake` finds what is new, changed or removed under some paths. `cut` makes passages of a text, which
record their offsets in the source.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ragweave.errors import KnowledgeBaseError
from ragweave.state.passages import content_id, heading_of
from ragweave.tools.knowledge.chunking import Chunker, Span, Tokens, chunker_of, pack_pieces
from ragweave.tools.knowledge.draft import Draft, Passage, Source
from ragweave.tools.knowledge.loaders import files_under, load
from ragweave.tools.knowledge.manifest import Progress, Settings, Skip, counted, printable
from ragweave.tools.knowledge.markup import Loaded, UnreadableError
from ragweave.tools.knowledge.web import Page, clean_url, fetch
from ragweave.tools.text.untrusted import short_title


@dataclass(frozen=True)
class Cutter:
    """Cuts texts as a knowledge base's settings say; its chunker is made at the first text."""

    settings: Settings
    tokens: Tokens
    """Offsets of tokens, for the unit `tokens`."""

    @cached_property
    def _chunker(self) -> Chunker:
        return chunker_of(self.settings, self.tokens)

    def spans(self, loaded: Loaded) -> list[Span]:
        """Return the spans of a text's passages; a row stays whole as far as `size` allows."""
        if not loaded.row:
            return self._chunker(loaded.text, loaded.headings)
        lines = [one.span() for one in _LINE.finditer(loaded.text) if one.group().strip()]
        return pack_pieces(loaded.text, lines, self.settings, self.tokens, 0)


_LINE = re.compile(r"[^\n]+")


def cut(loaded: Loaded, source: str, place: int, cutter: Cutter) -> Iterator[Passage]:
    """Cut a text into passages.

    A passage's id is the text's own (`id#n` where it is cut into several), else its content id.

    Args:
        loaded: The text.
        source: How passages cite it.
        place: Place of the first passage within the source.
        cutter: How to cut.
    """
    spans = cutter.spans(loaded)
    loaded = _bounded(loaded, several=len(spans) > 1)
    for number, (start, end) in enumerate(spans):
        text = loaded.text[start:end]
        meta: dict[str, Any] = {**loaded.metadata, "source": source, "title": loaded.title}
        meta |= {"start": start, "end": end} | loaded.marks_at(start)
        content = content_id(text, heading_of(meta))
        own = loaded.id if len(spans) == 1 else f"{loaded.id}#{number}"
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
    alone: bool = False
    """Whether all files indexed are of this machine, so that those not found are gone."""
    counts: Counter[str] = field(default_factory=Counter)
    """Files by `added`, `changed`, `removed`, `unchanged`."""
    skips: list[Skip] = field(default_factory=list)
    _cutter: Cutter = field(init=False)
    _denied: list[str] = field(default_factory=list)
    """Folders that cannot be listed this time, absolute."""
    _gone: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """Keys of the sources of files that are gone, by their name and hash."""

    def __post_init__(self) -> None:
        """Make what cuts."""
        self._cutter = Cutter(self.settings, self.tokens)

    def take_paths(self, draft: Draft, paths: Sequence[Path], *, prune: bool = False) -> None:
        """Add what is new or changed under `paths`, remove what no longer exists under them.

        Args:
            draft: What to change.
            paths: Files and folders.
            prune: Remove also what no longer exists elsewhere.

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
        if self.alone or prune:
            self._settle_gone(draft, files.keys(), prune=prune)
        for number, (key, path) in enumerate(files.items(), 1):
            self._take_file(draft, known.get(key), key, path)
            self.progress("read", number, len(files))

    @property
    def gone(self) -> list[str]:
        """Cited names of the indexed files that are gone and stay."""
        return sorted(name for (name, _), keys in self._gone.items() for _ in keys)

    def _settle_gone(self, draft: Draft, found: Collection[str], *, prune: bool) -> None:
        """Remove the sources of files that are gone, or note them: a new file may be one of them."""
        held = draft.sources("file").values()
        for one in gone_files(source for source in held if source.key not in found):
            if prune:
                draft.remove_source(one.key)
                self.counts["removed"] += 1
            else:
                self._gone.setdefault((one.name, one.hash), []).append(one.key)

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
            if path.is_symlink() and not os.path.exists(path):  # noqa: PTH110 - it never raises
                self._deny(Skip(str(path), "a link to what is not there"), known)
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
            skip = Skip(str(path), error.strerror or str(error))
            self._miss(
                draft,
                before,
                skip,
                stays=not isinstance(error, FileNotFoundError) or path.is_symlink(),
            )
            return
        self._take(draft, before, now, path, str(path))

    def take_pages(self, draft: Draft, pages: Sequence[Page]) -> None:
        """Add the web pages that are new or changed; their sources are their addresses."""
        known = draft.sources("page")
        for page in pages:
            digest = hashlib.sha256(page.data).hexdigest()
            now = Source(page.url, page.url, "page", len(page.data), hash=digest)
            with TemporaryDirectory(prefix="ragweave-") as folder:
                path = Path(folder, page.file_name)
                path.write_bytes(page.data)
                self._take(draft, known.get(page.url), now, path, page.url)

    def fetch_pages(self, urls: Sequence[str], *, private: bool) -> list[Page]:
        """Read web pages; one that cannot be read is a `Skip`, and what was indexed of it stays.

        Raises:
            UsageError: One is no address.
        """
        found = []
        for number, url in enumerate(dict.fromkeys(map(clean_url, urls)), 1):
            try:
                found.append(fetch(url, private=private))
            except UnreadableError as error:
                self.skips.append(Skip(url, str(error)))
            self.progress("fetch", number, len(urls))
        return found

    def _take(
        self, draft: Draft, before: Source | None, now: Source, path: Path, shown: str
    ) -> None:
        """Index a file where it is new or changed; `shown` is what the report calls it.

        A new one replaces one of its cited name and content that is gone: it was moved.
        """
        if before is not None and now.hash == before.hash:
            if now != before:
                draft.touch(now)
            self.counts["unchanged"] += 1
            self.skips.extend(before.skips)
            return
        alike = self._gone.get((now.name, now.hash), []) if before is None else []
        try:
            with draft.attempt():
                for key in (now.key, *alike[:1]):
                    draft.remove_source(key)
                skips = self._read(draft, now, path)
        except UnreadableError as error:
            self._miss(draft, before, Skip(shown, str(error)), stays=error.passing)
            return
        skips = [replace(skip, path=shown) for skip in skips]
        draft.add_source(replace(now, skips=tuple(skips)))
        self.skips.extend(skips)
        self.counts["added" if before is None else "changed"] += 1
        if alike:
            del alike[0]
            self.counts["removed"] += 1

    def _read(self, draft: Draft, source: Source, path: Path) -> list[Skip]:
        skips: list[Skip] = []
        place = 0
        for one in load(path, self.settings):
            if isinstance(one, Skip):
                skips.append(one)
            else:
                passages = cut(one, source.name, place, self._cutter)
                place += len(draft.add_passages(source.key, passages))
        if not place and not skips:
            raise UnreadableError("empty")
        return skips

    def _miss(self, draft: Draft, before: Source | None, skip: Skip, *, stays: bool) -> None:
        """Report a file that cannot be read.

        Its earlier content leaves the index, unless the trouble may pass; what is to be repaired
        (`mark_stale`) leaves in any case.
        """
        if before is not None and before.hash and stays:
            skip = replace(skip, reason=f"{skip.reason}; what is indexed of it stays")
        elif before is not None:
            draft.remove_source(before.key)
            self.counts["removed"] += 1
        self.skips.append(skip)


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


def gone_files(sources: Iterable[Source]) -> list[Source]:
    """Return those sources of files whose file no longer exists; no access to it says nothing."""
    return [one for one in sources if _is_gone(one.key)]


def _is_gone(path: str) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return True
    except OSError:
        return False
    return False


def _named_in_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _under(key: str, root: str) -> bool:
    return key == root or Path(key).is_relative_to(root)
