"""Knowledge bases at addresses, and retrievers by name.

PostgreSQL and LanceDB hold all that a folder has, Chroma vectors alone. A retriever's name is a mode of a knowledge base,
or the import path of any LangChain retriever.
"""

import inspect
import os
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, get_args

from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever

from ragweave.errors import KnowledgeBaseError, MissingExtraError, RagweaveError, UsageError, did_you_mean, one_line_of
from ragweave.names import Preference, RetrieverName
from ragweave.tools.cluster import each_on_cluster
from ragweave.tools.imported import imported, is_path, object_at
from ragweave.tools.knowledge.base import AbstractKnowledgeBase, KnowledgeBase, SomeSettings, agreed, embedder_of
from ragweave.tools.knowledge.candidates import CandidateView, VectorSample
from ragweave.tools.knowledge.filters import ALL, Filter, parse
from ragweave.tools.knowledge.ingest import files_under, roots_of
from ragweave.tools.knowledge.settings import FileLimits, IndexReport, Progress
from ragweave.tools.knowledge.staging import Change, Engine, Writer
from ragweave.tools.knowledge.store import VECTORS
from ragweave.tools.retrieval.analyzer import analyzer_for
from ragweave.tools.retrieval.base import PassageRetriever, find_with
from ragweave.tools.retrieval.newest import arranged
from ragweave.tools.retrieval.reranking import Reranker
from ragweave.tools.retrieval.retrievers import SearchRetriever
from ragweave.tools.text.untrusted import without_secrets

ENGINES = {"lance": "lance", "pg": "postgres", "chroma": "chroma"}
"""The extra that brings a store's client, by the kind of address."""
_MAX_STAGED = 5_000
"""Passages after which a write is committed, up to the end of a source."""
_MAX_FILES = 200
"""Files that a task of a cluster reads."""

MODES: tuple[str, ...] = get_args(RetrieverName)
"""How a knowledge base is searched: `auto`, `bm25`, `dense`, `hybrid`, `graph`."""

Place = TypeVar("Place")


def _engine(kind: str, url: str, name: str) -> Engine:
    if kind == "lance":
        from ragweave.tools.knowledge.lance import LanceStore

        return LanceStore(url, name)
    if kind == "pg":
        from ragweave.tools.knowledge.postgres import PostgresStore

        return PostgresStore(url, name)
    from ragweave.tools.knowledge.chroma import ChromaStore

    return ChromaStore(url, name)


def is_address(place: str | Path) -> bool:
    """Return whether a place is an address, not a folder."""
    kind, colon, _ = str(place).partition(":")
    return (bool(colon) and kind in ENGINES) or "://" in str(place).partition("?")[0]


def open_knowledge_base(
    place: str | Path, *, embeddings: Embeddings | None = None
) -> "KnowledgeBase | ServedKnowledgeBase":
    """Open the knowledge base in a folder or at an address.

    Raises:
        KnowledgeBaseError: It is missing or damaged, or the server does not answer.
    """
    if is_address(place):
        return ServedKnowledgeBase(str(place), embeddings, create=False)
    return KnowledgeBase.open(place, embeddings=embeddings)


def index_on_ray(
    place: str, paths: Iterable[str], ray: Any, limits: FileLimits | None, progress: Progress | None = None
) -> IndexReport:
    """Bring a knowledge base at `lance:` or `pg:` up to date with files, by the nodes of a cluster that `connected` returned.

    Each task reads some of the files, which have the same paths on all nodes, embeds their passages and commits them.
    If its node is lost, another task does so again; files that were committed before count as unchanged. At last this
    process removes what is gone, and reads what changed meanwhile.

    Raises:
        KnowledgeBaseError: There is no such knowledge base, a path does not exist, or a task cannot write.
    """
    kind, _, rest = place.partition(":")
    if kind == "lance" and "://" not in rest:
        place = f"lance:{os.path.abspath(rest)}"  # noqa: PTH100 - tasks have folders of their own
    roots = roots_of(paths)
    files = [*dict.fromkeys(file for root in roots for file in files_under(root))]
    size = max(1, min(_MAX_FILES, int(len(files) / (2 * ray.cluster_resources()["CPU"]))))

    def indexed(part: list[str]) -> IndexReport:
        with ServedKnowledgeBase(place, create=False) as kb:
            return kb.index_paths(part, limits=limits)

    counts, dates = Counter[str](), Counter[str]()
    parts = [files[start : start + size] for start in range(0, len(files), size)]
    for done, report in enumerate(each_on_cluster(ray, indexed, parts), 1):
        counts.update(added=report.added, changed=report.changed, embedded=report.embedded)
        dates.update(report.dates)
        if progress:
            progress("read", done, len(parts))
    with ServedKnowledgeBase(place, create=False) as kb:
        last = kb.index_paths(roots, limits=limits)
    new = counts["added"] + counts["changed"]
    return replace(
        last,
        **{name: getattr(last, name) + count for name, count in counts.items()},
        unchanged=max(0, last.unchanged - new),
        dates=dates + Counter(last.dates),
    )


class ServedKnowledgeBase(AbstractKnowledgeBase):
    """A knowledge base at an address such as `pg:postgresql://user@host/db#papers`.

    The passages of a source are replaced as a whole: readers see all of the old or all of the new ones. A write of
    more than 5,000 passages is committed in several steps, after each of which its finished sources can be found.
    """

    def __init__(
        self, address: str, embeddings: Embeddings | None = None, settings: SomeSettings = None, *, create: bool = True
    ) -> None:
        """Open a knowledge base, or make it.

        Args:
            address: Kind of store, its URL, and the name after `#`. A password is better left to the
                environment (PGPASSWORD) than written here.
            embeddings: A LangChain embeddings object instead of `settings.embedding`.
            settings: How to chunk and embed, or some of that by name. Later only the fields of rows can change.
            create: Whether a missing one is made.

        Raises:
            UsageError: It is not an address.
            KnowledgeBaseError: The server does not answer, there is no such knowledge base, or the settings differ
                from its own.
            MissingExtraError: The store's client is not installed.
        """
        kind, _, rest = address.partition(":")
        url, _, name = rest.partition("#")
        if kind not in ENGINES or not url or not (name or kind == "lance"):
            raise UsageError(
                f"{kind}: an address is lance:FOLDER or KIND:URL#NAME, such as pg:postgresql://host/db#papers; "
                f"kinds: {', '.join(ENGINES)}"
            )
        self.path, self._sample = without_secrets(address), VectorSample()
        try:
            with _client_errors(f"{self.path} cannot be opened"):
                self._engine = _engine(kind, url, name)
                self._configure(settings, embeddings, create)
        except ImportError as error:
            raise MissingExtraError(f"A knowledge base at {kind}:", ENGINES[kind]) from error
        self.modes = self._engine.modes

    def _configure(self, given: SomeSettings, embeddings: Embeddings | None, create: bool) -> None:
        """Take the stored settings, or else those given; with other fields of rows, sources are to be read again."""
        own = self._engine.settings()
        if own is None and not create:
            raise KnowledgeBaseError(
                f"there is no knowledge base {self.path}; make it with `ragweave index FILES --kb {self.path}`"
            )
        self.settings = agreed(self.path, own, given, embeddings)
        self._embedder = embedder_of(self.path, self.settings.embedding, embeddings)
        if own != self.settings:
            size = len(self._embedder.query("size")) if self._embedder.model else 0
            if own is not None:
                self._read_again()
            self._engine.configure(self.settings, size)

    def _read_again(self, keys: Collection[str] | None = None) -> None:
        """Let the next indexing read some sources, or all, as if they had changed."""
        with self._writing() as writer:
            for key, source in writer.sources().items():
                if keys is None or key in keys:
                    writer.update(replace(source, hash=""))
            writer.commit()

    @contextmanager
    def _view(self) -> Iterator[CandidateView]:
        with _client_errors(f"{self.path} cannot be read"), self._engine.view() as view:
            view.sample = self._sample
            yield view

    @contextmanager
    def _writing(self) -> Iterator[Writer]:
        terms = analyzer_for(self.settings.language).index_terms
        temporary = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        with _client_errors(f"{self.path} cannot be written"), closing(temporary) as db:
            db.execute(VECTORS)

            def commit(changes: Sequence[Change]) -> None:
                self._engine.replace(changes, terms)
                db.execute("DELETE FROM vectors")

            yield Writer(db, self._engine.view, commit, self._embedder, _MAX_STAGED)
            self._engine.tend()

    def check(self) -> list[str]:
        """Return what is wrong, one line per fault; missing files are not faults of the index."""
        with _client_errors(f"{self.path} cannot be read"):
            return self._engine.check()

    def rebuild(self) -> None:
        """Make again what is derived from the passages."""
        with _client_errors(f"{self.path} cannot be written"):
            self._read_again(self._engine.repair())

    def drop(self) -> int:
        """Delete the knowledge base; return how many passages there were."""
        count = len(self)
        with _client_errors(f"{self.path} cannot be written"):
            self._engine.drop()
        return count

    def close(self) -> None:
        """Close the connections."""
        self._engine.close()


@contextmanager
def _client_errors(what: str) -> Iterator[None]:
    """Raise `KnowledgeBaseError` for the errors of clients, each of which has its own."""
    try:
        yield
    except (RagweaveError, ImportError):
        raise
    except Exception as error:
        raise KnowledgeBaseError(f"{what} ({without_secrets(one_line_of(error, 300))})") from error


# ---- retrievers by name


def retriever_of(
    spec: str,
    kb: AbstractKnowledgeBase | str | Path | None = None,
    k: int = 5,
    *,
    filter: Filter = None,
    rerank: Reranker | None = None,
    prefer: Preference | None = None,
    permitted: Filter = None,
) -> PassageRetriever:
    """Return the retriever that a line of text names, which commands take and a run's settings can store.

    Args:
        spec: A mode of `MODES` (`bm25`), another knowledge base (`KB`) or a mode of it (`bm25:KB`), or
            the import path of a LangChain retriever, or of a function or class that returns one:
            `langchain_community.retrievers:WikipediaRetriever?top_k_results=3`. What takes an
            argument `kb` gets the knowledge base.
        kb: The knowledge base to search, or its place; None where the retriever needs none.
        k: Passages a query; a call may ask for another number.
        filter: As `KnowledgeBase.as_retriever`. What takes an argument `kb` gets only what passes.
        rerank: As `KnowledgeBase.as_retriever`.
        prefer: As `KnowledgeBase.as_retriever`.
        permitted: What it may see of any knowledge base, which is all that there is for it, as in `kb.view(permitted)`.

    Raises:
        UsageError: There is no such retriever, or it needs a knowledge base and there is none.
        KnowledgeBaseError: The knowledge base cannot be opened.
    """
    spec, kb = searched(spec, kb)
    if not needs_kb(spec):
        if {parse(filter), parse(permitted)} != {ALL}:
            raise UsageError(f"{spec} does not search a knowledge base, so it cannot be filtered")
        inner = imported(spec)
    else:
        if not kb:
            raise UsageError(f"the retriever {spec!r} searches a knowledge base: name one with --kb")
        base = open_knowledge_base(kb) if isinstance(kb, str | Path) else kb
        base = base.view(permitted) if permitted else base
        if spec in MODES:
            return base.as_retriever(k, spec, filter=filter, rerank=rerank, prefer=prefer)  # type: ignore[arg-type]
        inner = imported(spec, base.view(filter) if filter else base)
    if not isinstance(inner, BaseRetriever):
        raise UsageError(f"{spec} is not a LangChain retriever, but {type(inner).__name__}")
    return arranged(SearchRetriever(search=partial(find_with, inner), k=k), k, rerank, prefer)


def searched(spec: str, kb: Place) -> tuple[str, Place | str]:
    """Return the mode or import path that a retriever's spec names, and its knowledge base: the spec's own, else `kb`."""
    spec = spec.strip()
    name, _, place = spec.partition(":")
    if name in MODES and place:
        return name, place
    if spec not in MODES and (is_address(spec) or Path(spec).is_dir()):
        return "auto", spec
    return spec, kb


def needs_kb(spec: str) -> bool:
    """Return whether a retriever searches a knowledge base.

    Raises:
        UsageError: There is no such retriever.
    """
    if spec in MODES:
        return True
    if not is_path(spec):
        raise UsageError(
            f"{spec}: no such knowledge base or retriever ({did_you_mean(spec, MODES)}); a LangChain retriever is named "
            "by its import path, module:Name"
        )
    value = object_at(spec.partition("?")[0])
    with suppress(ValueError):  # a class without a signature
        return callable(value) and next(iter(inspect.signature(value).parameters), "") == "kb"
    return False
