"""Ingestion: find the files that are new, changed or gone, fetch pages, and stage their passages."""

import hashlib
import ipaddress
import mimetypes
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO
from urllib.parse import urldefrag, urlsplit

import httpx
from langchain_core.embeddings import Embeddings

from ragweave.errors import KnowledgeBaseError, UsageError, one_line_of
from ragweave.tools.knowledge.chunking import Loaded, Passage, Remark, UnreadableError, passages_of
from ragweave.tools.knowledge.loaders.pdf import NEED_OCR, available
from ragweave.tools.knowledge.loaders.text import dated
from ragweave.tools.knowledge.loaders.worker import EXCEEDED, Worker
from ragweave.tools.knowledge.settings import IndexSettings, Notice
from ragweave.tools.knowledge.staging import Writer
from ragweave.tools.knowledge.store import FILE
from ragweave.tools.knowledge.view import Source
from ragweave.tools.retrieval.base import listed

_CLOCK = 2_000_000_000
"""Nanoseconds within which two changes may leave a file with the same time."""
PAGE_SECONDS = 30.0
"""Longest time that a page may take, redirects included."""
PAGE_BYTES = 20_000_000
"""Longest page."""
_MAX_REDIRECTS = 5


@dataclass
class Ingest:
    """Brings a write up to date with files, pages or documents, and counts them."""

    writer: Writer
    settings: IndexSettings
    embeddings: Embeddings | None
    worker: Worker
    counts: Counter[str] = field(default_factory=Counter)
    """Files by what became of them, as in an `IndexReport`."""
    notices: list[Notice] = field(default_factory=list)
    dates: Counter[str] = field(default_factory=Counter)
    """Texts by the origin of their date, as in an `IndexReport`."""

    def paths(self, roots: Sequence[str]) -> None:
        """Take the files under some absolute paths: read new and changed ones, remove missing ones.

        A missing file elsewhere is removed if one with its bytes is new: it was moved.

        Raises:
            KnowledgeBaseError: A path does not exist and was never indexed.
        """
        known = self._known("file")
        files: dict[str, None] = {}
        for root in roots:
            if not os.path.lexists(root) and not any(_under(key, root) for key in known):
                raise KnowledgeBaseError(f"no such file or folder: {root}")
            files |= dict.fromkeys(files_under(root, self._deny))
        denied = [notice.path for notice in self.notices]
        inside = (key for key in known.keys() - files.keys() if any(_under(key, root) for root in roots))
        gone = {key for key in inside if not any(_under(key, folder) for folder in denied)}
        new: set[str] = set()
        for number, key in enumerate(files, 1):
            source = self._file(key, known.get(key))
            new |= {source.hash} if source and key not in known else set()
            if self.writer.progress:
                self.writer.progress("read", number, len(files))
        moved = {key for key, source in known.items() if source.hash in new and not os.path.lexists(key)}
        for key in gone | moved:
            self.writer.remove(key)
            self.counts["removed"] += 1

    def _deny(self, error: OSError) -> None:
        self.notices.append(Notice(error.filename, error.strerror or str(error)))

    def _file(self, key: str, before: Source | None) -> Source | None:
        """Take a file, unless its size and time, or its bytes, are as `before`; None if it cannot be opened."""
        try:
            source, file = _opened(key, before)
        except (OSError, UnreadableError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            stays = "; what is indexed of it stays" if before else ""
            self.notices.append(Notice(_shown(key), reason + stays))
            return None
        if file is None:
            self._unchanged(source)
        else:
            with file:
                self._take(source, self.worker.load(Path(key), file, self.settings), before)
        return source

    def pages(self, urls: Iterable[str]) -> None:
        """Fetch web pages, each once, and take those whose bytes are not as before."""
        known = self._known("page")
        for url in dict.fromkeys(map(clean_url, urls)):
            try:
                data, suffix = fetch(url)
            except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
                self.notices.append(Notice(url, f"cannot be fetched ({one_line_of(error)})"))
                continue
            name = Path(url.rstrip("/").rpartition("/")[2] or "page").with_suffix(suffix)
            source = Source(url, "page", hashlib.sha256(data).hexdigest())
            with TemporaryDirectory() as folder:
                path = Path(folder, "page")
                path.write_bytes(data)
                with path.open("rb") as file:
                    self._take(source, self.worker.load(name, file, self.settings), known.get(url))

    def documents(self, key: str, loaded: list[Loaded]) -> None:
        """Take the texts of a source that a LangChain loader read, unless they are as before."""
        source = Source(key, "added", hashlib.sha256(repr(loaded).encode()).hexdigest())
        self._take(source, loaded, self._known("added").get(key))

    def _take(self, source: Source, texts: Iterable[Loaded | str], before: Source | None) -> None:
        """Read a source and stage its passages, unless its bytes are as before.

        The hash is stored even if the source cannot be read: it is read again when it changes.
        """
        if before and before.hash == source.hash:
            self.writer.update(replace(source, notices=before.notices, enriched=before.enriched))
            self._unchanged(before)
            return

        timed = self.settings.file_dates and source.kind == "file"
        changed = datetime.fromtimestamp((source.modified or time.time_ns()) / 1e9, UTC).date().isoformat()
        source = replace(source, enriched=self.writer.enrich is not None)

        def passages() -> Iterator[Passage]:
            for loaded in texts:
                if isinstance(loaded, str):
                    source.notices.append((loaded, "read" if isinstance(loaded, Remark) else "in part"))
                else:
                    text = dated(loaded, file=changed * timed)
                    self.dates[text.metadata.get("date_from", "")] += 1
                    yield from passages_of(text, self.settings, self.embeddings)

        try:
            count = self.writer.put(source, passages())
        except (UnreadableError, MemoryError) as error:
            count = self.writer.put(source, ())
            source.notices[:] = [(str(error) or "it needs more memory than there is", "skipped")]
        if not count:
            source.notices[:] = [(reason, "skipped") for reason, _ in source.notices] or [("empty", "skipped")]
        self._repeat(source)
        if count:
            self.counts["changed" if before else "added"] += 1

    def _known(self, kind: str) -> dict[str, Source]:
        """Return the known sources by key; those of which more can be read now have no hash, so they are read again."""
        known = self.writer.sources(kind)
        more = {key for key, source in known.items() if any(self._reads_more(reason) for reason, _ in source.notices)}
        more |= {key for key, source in known.items() if self.writer.enrich and not source.enriched}
        return known | {key: replace(known[key], hash="") for key in more}

    def _reads_more(self, reason: str) -> bool:
        """Return whether OCR was missing and is there now, or a file exceeded other limits."""
        return (NEED_OCR in reason and available()) or (EXCEEDED in reason and str(self.worker.limits) not in reason)

    def _unchanged(self, source: Source) -> None:
        skipped = any(status == "skipped" for _, status in source.notices)
        self.counts["unchanged"] += not skipped
        self._repeat(source)

    def _repeat(self, source: Source) -> None:
        self.notices += [Notice(source.key, *notice) for notice in source.notices]


def roots_of(paths: object) -> list[str]:
    """Return one or several paths as absolute ones; raise `UsageError` if there is none, or an empty one."""
    given = [str(path) for path in listed(paths)]
    if not given or not all(path.strip() for path in given):
        raise UsageError("give at least one file or folder to index (. is this folder)")
    return [os.path.abspath(path) for path in given]  # noqa: PTH100 - `resolve` would follow links


def files_under(root: str, deny: Callable[[OSError], None] | None = None) -> Iterator[str]:
    """Yield the files of a folder, sorted, or `root` if it is a file; no hidden or lock files, no knowledge bases.

    `deny` is told of folders that cannot be read.
    """
    if not Path(root).is_dir():
        yield from [root] * os.path.lexists(root)
        return
    for folder, names, files in os.walk(root, onerror=deny):
        names[:] = sorted(name for name in names if name[0] != "." and not Path(folder, name, FILE).exists())
        yield from (
            f"{folder.rstrip(os.sep)}{os.sep}{name}" for name in sorted(files) if not name.startswith((".", "~$"))
        )


def _opened(key: str, before: Source | None) -> tuple[Source, BinaryIO | None]:
    """Return a file's source, and the open file unless its size and time are unchanged."""
    path = Path(key)
    if _shown(key) != key:
        raise UnreadableError("a name not in UTF-8")
    stat = path.stat()
    if before and before.hash and (stat.st_size, stat.st_mtime_ns) == (before.size, before.modified):
        return before, None
    if not path.is_file():
        raise UnreadableError("not a regular file")
    is_old = time.time_ns() - stat.st_mtime_ns > _CLOCK
    file = path.open("rb")
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0)
    return Source(key, "file", digest, stat.st_size, stat.st_mtime_ns * is_old), file


def _shown(key: str) -> str:
    """Return a path as printable text: bytes that are not UTF-8 are escaped."""
    return os.fsencode(key).decode("utf-8", "backslashreplace")


def _under(key: str, root: str) -> bool:
    return key == root or key.startswith(root.rstrip(os.sep) + os.sep)


def clean_url(url: str) -> str:
    """Return an address without its fragment.

    Raises:
        UsageError: It is not the address of a web page, or holds a password.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url}: not the address of a web page")
    if parts.username or parts.password:
        raise UsageError("an address with a password is not read: sources are stored as plain text")
    return urldefrag(url)[0]


def fetch(url: str) -> tuple[bytes, str]:
    """Return the bytes of a page, and the suffix of files of its type.

    The user may name any address. A redirect must not lead from there to a private address of
    another host: a page could make this machine read its neighbours. Each host is resolved once, so
    that it cannot answer with another address after the check.

    Raises:
        httpx.HTTPError: The page cannot be reached.
        ValueError: It is refused, too long or too slow, or redirects too often or to a private address.
    """
    end = time.monotonic() + PAGE_SECONDS
    first = target = httpx.URL(url)
    hosts: dict[str, list[str]] = {}
    headers = {"User-Agent": "ragweave", "Accept-Encoding": "gzip"}
    with httpx.Client(timeout=10, trust_env=False, headers=headers) as client:
        for _ in range(_MAX_REDIRECTS + 1):
            host = target.raw_host.decode()
            if host not in hosts:
                infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
                hosts[host] = [*dict.fromkeys(str(info[4][0]) for info in infos)]
            are_public = (ipaddress.ip_address(address.partition("%")[0]).is_global for address in hosts[host])
            if target.netloc != first.netloc and not all(are_public):
                raise ValueError(f"it redirects to a private address, {host}")
            with closing(_sent(client, target, hosts[host])) as response:
                if not response.has_redirect_location:
                    return _body(response, end)
                target = target.join(response.headers["Location"])
    raise ValueError(f"more than {_MAX_REDIRECTS} redirects")


def _sent(client: httpx.Client, url: httpx.URL, addresses: list[str]) -> httpx.Response:
    """Ask the first address of a host that can be reached."""
    headers, named = {"Host": url.netloc.decode()}, {"sni_hostname": url.raw_host.decode()}
    for address in addresses:
        request = client.build_request("GET", url.copy_with(host=address), headers=headers, extensions=named)
        try:
            return client.send(request, stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            if address == addresses[-1]:
                raise
    raise ValueError("its host has no address")


def _body(response: httpx.Response, end: float) -> tuple[bytes, str]:
    if response.is_error:
        raise ValueError(f"{response.status_code} {response.reason_phrase}")
    data = bytearray()
    for piece in response.iter_bytes():
        data += piece
        if len(data) > PAGE_BYTES or time.monotonic() > end:
            raise ValueError(f"longer than {PAGE_BYTES} bytes, or took longer than {PAGE_SECONDS:g} s")
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return bytes(data), ".html" if "html" in kind else mimetypes.guess_extension(kind) or ""
