"""Knowledge bases at addresses: in PostgreSQL and LanceDB with all that a folder has, in Chroma with vectors alone."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile

from langchain_core.embeddings import Embeddings

from ragweave.errors import KnowledgeBaseError, MissingExtraError, RagweaveError, UsageError
from ragweave.tools.knowledge.base import AbstractKnowledgeBase, KnowledgeBase, SomeSettings, agreed, embeddings_of
from ragweave.tools.knowledge.candidates import CandidateView, VectorSample
from ragweave.tools.knowledge.staging import Engine, StagedWriter
from ragweave.tools.retrieval.analyzer import analyzer_for
from ragweave.tools.text.untrusted import without_secrets

ENGINES = {"lance": "lance", "pg": "postgres", "chroma": "chroma"}
"""The extra that brings a store's client, by the kind of address."""


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
        self._embeddings = embeddings_of(self.path, self.settings.embedding, embeddings)
        if own != self.settings:
            size = len(self._embeddings.embed_query("size")) if self._embeddings else 0
            if own is not None:
                self._read_again()
            self._engine.configure(self.settings, size)

    def _read_again(self, keys: Collection[str] | None = None) -> None:
        """Let the next indexing read some sources, or all, as if they had changed."""
        with self._writing() as writer:
            for key, source in writer.sources().items():
                if keys is None or key in keys:
                    writer.update(key, replace(source, hash=""))
            writer.commit()

    @contextmanager
    def _view(self) -> Iterator[CandidateView]:
        with _client_errors(f"{self.path} cannot be read"), self._engine.view() as view:
            view.sample = self._sample
            yield view

    @contextmanager
    def _writing(self) -> Iterator[StagedWriter]:
        terms = analyzer_for(self.settings.language).index_terms
        with _client_errors(f"{self.path} cannot be written"), TemporaryFile() as spool:
            commit = partial(self._engine.replace, terms=terms)
            yield StagedWriter(self._engine.view, commit, self._embedder(), spool)
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
        reason = without_secrets(" ".join(str(error).split()))[:300] or type(error).__name__
        raise KnowledgeBaseError(f"{what} ({reason})") from error
