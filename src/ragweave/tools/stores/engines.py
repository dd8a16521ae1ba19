"""Speaking to Elasticsearch and to OpenSearch: each by its own client, and where they differ.

Elasticsearch's client refuses an OpenSearch server, and its dense vectors have other names there.
"""

from __future__ import annotations

import json
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any
from urllib.parse import unquote, urlsplit

from ragweave.errors import KnowledgeBaseError, MissingExtraError, UsageError
from ragweave.tools.stores.address import Address, without_slash
from ragweave.tools.text.secrets import without_secrets

_SECONDS = 60
_JSON = "application/json"
_LINES = "application/x-ndjson"

Body = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
"""A document, or the lines of a bulk request."""


class Engine(ABC):
    """A server that is spoken to in JSON; connects at first use."""

    extra: str
    module: str
    title: str
    password: str
    """The environment's variable with the password of the user named in the URL."""

    def __init__(self, address: Address) -> None:
        """Take the address.

        Raises:
            MissingExtraError: The client is not installed.
            UsageError: The place is no URL, or has a setting that there is none of.
        """
        if find_spec(self.module) is None:
            raise MissingExtraError(self.title, self.extra)
        parts = urlsplit(address.bare)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(
                f"{address}: must look like {address.store}:https://HOST:9200#COLLECTION"
            )
        self.address = address
        port = parts.port or (443 if parts.scheme == "https" else 9200)
        self.url = without_slash(
            f"{parts.scheme}://{_bracketed(parts.hostname)}:{port}{parts.path}"
        )
        user, _, secret = address.login.partition(":")
        self.user = unquote(user)
        self.secret = unquote(secret) or os.environ.get(self.password, "")
        self.certificates = address.settings("ca_certs").get("ca_certs", "")
        self._client: Any = None
        self._lock = threading.Lock()

    def send(
        self, method: str, path: str, body: Body = None, params: Mapping[str, Any] | None = None
    ) -> tuple[int, Any]:
        """Send a request; return its status and its body, also where it was not found (404).

        A conflict of versions (409) is returned too.

        Raises:
            KnowledgeBaseError: The server does not answer, or refuses.
        """
        status, answer = self._ask(self._opened(), method, f"/{path}", body, dict(params or {}))
        if status < 400 or status in (404, 409):
            return status, answer
        login = f"; give its user and password in the URL, or the password by {self.password}"
        raise KnowledgeBaseError(
            f"{self.address} refused: {status} {_reason(answer)}{login * (status in (401, 403))}"
        )

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def unreachable(self, error: Exception) -> KnowledgeBaseError:
        """Return the error of a server that does not answer."""
        return KnowledgeBaseError(f"{self.address} cannot be reached: {_line(str(error))}")

    def _opened(self) -> Any:
        """Return the client, which another thread may close while the caller still asks it."""
        with self._lock:
            if self._client is None:
                self._client = self._connected()
            return self._client

    def _connected(self) -> Any:
        try:
            return self._connect()
        except (ValueError, OSError) as error:  # a setting that the client refuses
            raise KnowledgeBaseError(
                f"{self.address} cannot be used: {_line(str(error))}"
            ) from error

    @abstractmethod
    def _connect(self) -> Any:
        """Make the client; nothing is sent yet."""

    @abstractmethod
    def _ask(
        self, client: Any, method: str, path: str, body: Body, params: dict[str, Any]
    ) -> tuple[int, Any]:
        """Send a request by a client; return the status and the body of the answer."""

    @abstractmethod
    def vector_field(self, dimension: int) -> dict[str, Any]:
        """Return the mapping of a field of vectors that are compared by their cosine."""

    @abstractmethod
    def nearest(self, vector: list[float], n: int, where: dict[str, Any]) -> dict[str, Any]:
        """Return the body of a search for the `n` nearest vectors of the documents `where`."""

    index_settings: Mapping[str, Any] = {}
    """Settings that an index of vectors needs."""


class Elasticsearch(Engine):
    """Elasticsearch, version 8 or later."""

    extra, module, title = "elasticsearch", "elasticsearch", "Elasticsearch"
    password = "ELASTICSEARCH_PASSWORD"  # noqa: S105 - its name

    def _connect(self) -> Any:
        from elasticsearch import Elasticsearch as Client

        login: dict[str, Any] = {"basic_auth": (self.user, self.secret)} if self.user else {}
        key = os.environ.get("ELASTICSEARCH_API_KEY")
        if key and not self.user:
            login = {"api_key": key}
        if self.certificates:
            login["ca_certs"] = self.certificates
        return Client(self.url, request_timeout=_SECONDS, max_retries=2, **login)

    def _ask(
        self, client: Any, method: str, path: str, body: Body, params: dict[str, Any]
    ) -> tuple[int, Any]:
        from elasticsearch import ApiError, TransportError, UnsupportedProductError

        kind = _LINES if isinstance(body, list) else _JSON
        headers = {"accept": _JSON} | ({} if body is None else {"content-type": kind})
        try:
            answer = client.perform_request(method, path, params=params, headers=headers, body=body)
        except UnsupportedProductError as error:
            raise KnowledgeBaseError(
                f"{self.address} is not Elasticsearch; for OpenSearch begin with opensearch:"
            ) from error
        except ApiError as error:
            return error.meta.status, error.body
        except TransportError as error:
            raise self.unreachable(error) from error
        return answer.meta.status, answer.body

    def vector_field(self, dimension: int) -> dict[str, Any]:
        """Return the mapping of a field of vectors that are compared by their cosine."""
        return {"type": "dense_vector", "dims": dimension, "index": True, "similarity": "cosine"}

    def nearest(self, vector: list[float], n: int, where: dict[str, Any]) -> dict[str, Any]:
        """Return the body of a search for the `n` nearest vectors of the documents `where`."""
        knn = {"field": "vector", "query_vector": vector, "k": n, "filter": where}
        return {"size": n, "knn": knn | {"num_candidates": min(max(2 * n, 200), 10_000)}}


class OpenSearch(Engine):
    """OpenSearch, version 2.4 or later, with its k-NN plugin."""

    extra, module, title = "opensearch", "opensearchpy", "OpenSearch"
    password = "OPENSEARCH_PASSWORD"  # noqa: S105 - its name
    index_settings: Mapping[str, Any] = {"index.knn": True}

    def _connect(self) -> Any:
        from opensearchpy import OpenSearch as Client

        login: dict[str, Any] = {"http_auth": (self.user, self.secret)} if self.user else {}
        if self.certificates:
            login["ca_certs"] = self.certificates
        return Client([self.url], timeout=_SECONDS, max_retries=2, **login)

    def _ask(
        self, client: Any, method: str, path: str, body: Body, params: dict[str, Any]
    ) -> tuple[int, Any]:
        from opensearchpy.exceptions import ConnectionError as Unreachable
        from opensearchpy.exceptions import OpenSearchException, TransportError

        lines = isinstance(body, list)
        sent = "".join(f"{json.dumps(one)}\n" for one in body or ()) if lines else body
        headers = {"content-type": _LINES if lines else _JSON}
        try:
            answer = client.transport.perform_request(
                method, path, params=params, headers=headers, body=sent
            )
        except Unreachable as error:
            raise self.unreachable(error) from error
        except TransportError as error:
            return int(error.status_code), error.info
        except OpenSearchException as error:
            raise self.unreachable(error) from error
        return 200, answer

    def vector_field(self, dimension: int) -> dict[str, Any]:
        """Return the mapping of a field of vectors that are compared by their cosine."""
        method = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"}
        return {"type": "knn_vector", "dimension": dimension, "method": method}

    def nearest(self, vector: list[float], n: int, where: dict[str, Any]) -> dict[str, Any]:
        """Return the body of a search for the `n` nearest vectors of the documents `where`."""
        return {
            "size": n,
            "query": {"knn": {"vector": {"vector": vector, "k": n, "filter": where}}},
        }


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _reason(answer: Any) -> str:
    """Return why a server refused, as it says so."""
    error = answer.get("error") if isinstance(answer, Mapping) else answer
    if isinstance(error, Mapping):
        causes = error.get("root_cause") or [error]
        error = causes[0].get("reason") if isinstance(causes[0], Mapping) else causes[0]
    return _line(str(error or ""))


def _line(text: str) -> str:
    return without_secrets(" ".join(text.split())[:300])
