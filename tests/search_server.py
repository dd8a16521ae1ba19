"""A loopback server that speaks the few requests of Elasticsearch and OpenSearch that we send.

It is no search engine: it checks what it is asked strictly (unknown fields of a document, unknown
parts of a query and of a mapping are refused), keeps writes from searches until a refresh, counts
versions, and weighs words by Lucene's BM25 over all its documents, those that a filter leaves out
included. What it cannot show: that a real engine takes the same requests.

    with SearchServer("elasticsearch", user="me", password="secret") as server:
        KnowledgeBase.create(f"es:{server.url}#papers")
"""

from __future__ import annotations

import base64
import json
import math
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Answer = tuple[int, Any]


class RefusedError(Exception):
    """A request that the engine would refuse."""


@dataclass
class Index:
    """An index: its mapping, its documents, and what searches see of them."""

    fields: dict[str, Any]
    settings: dict[str, Any]
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    seen: dict[str, dict[str, Any]] = field(default_factory=dict)
    count: int = 0

    def put(self, name: str, body: dict[str, Any]) -> None:
        for key, value in body.items():
            kind = self.fields.get(key)
            if kind is None:
                raise RefusedError(
                    f"mapping set to strict, dynamic introduction of [{key}] is not allowed"
                )
            size = kind.get("dims") or kind.get("dimension")
            if size and len(value) != size:
                raise RefusedError(f"the vector has {len(value)} dimensions, the field {size}")
        self.count += 1
        self.documents[name], self.versions[name] = dict(body), self.count

    def refresh(self) -> None:
        self.seen = dict(self.documents)


class SearchServer:
    """The server; `product` is `elasticsearch` or `opensearch`."""

    def __init__(self, product: str, user: str = "", password: str = "") -> None:
        self.product = product
        self.indices: dict[str, Index] = {}
        self.requests: list[str] = []
        self.hangs_up: Callable[[str, str], bool] = lambda _method, _target: False
        """Whether the connection breaks when a request was carried out, before its answer."""
        self.login = f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
        self.locked = bool(user)
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        self.url = f"http://{user}:{password}@{self.host}" if user else f"http://{self.host}"

    def __enter__(self) -> SearchServer:
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, method: str, target: str, body: bytes) -> Answer:
        parts = urlsplit(target)
        words = [unquote(one) for one in parts.path.strip("/").split("/")]
        params = {key: values[0] for key, values in parse_qs(parts.query).items()}
        with self._lock:
            self.requests.append(f"{method} {parts.path}")
            try:
                return self._route(method, words, params, body)
            except RefusedError as error:
                reason = {"type": "illegal_argument_exception", "reason": str(error)}
                return 400, {"error": {"root_cause": [reason], **reason}, "status": 400}

    def _route(self, method: str, words: list[str], params: dict[str, str], body: bytes) -> Answer:
        name, action = words[0], words[1] if len(words) > 1 else ""
        index = self.indices.get(name)
        if method == "PUT" and not action:
            return self._make(name, json.loads(body))
        if index is None:
            return 404, {
                "error": {"type": "index_not_found_exception", "reason": f"no such {name}"}
            }
        return self._on(index, name, method, words[1:], params, body)

    def _on(
        self,
        index: Index,
        name: str,
        method: str,
        words: list[str],
        params: dict[str, str],
        body: bytes,
    ) -> Answer:
        match words:
            case [] if method == "DELETE":
                del self.indices[name]
                return 200, {}
            case []:
                return 200, {}
            case ["_doc", document]:
                return _document(index, method, document, params, body)
            case ["_refresh"]:
                index.refresh()
                return 200, {}
            case ["_bulk"]:
                return _bulk(index, [json.loads(line) for line in body.splitlines()])
            case ["_search"]:
                return self._search(index, json.loads(body))
        raise RefusedError(f"no handler found for {method} {'/'.join(words)}")

    def _make(self, name: str, body: dict[str, Any]) -> Answer:
        if name in self.indices:
            raise RefusedError(f"index [{name}] already exists")
        fields, settings = body["mappings"]["properties"], body["settings"]
        vectors = {"elasticsearch": "dense_vector", "opensearch": "knn_vector"}[self.product]
        known = {"keyword", "text", "long", "object", vectors}
        for field_name, kind in fields.items():
            if kind["type"] not in known:
                raise RefusedError(f"no handler for type [{kind['type']}] on field [{field_name}]")
            if kind["type"] == "knn_vector" and not settings.get("index.knn"):
                raise RefusedError("index.knn must be true")
        self.indices[name] = Index(fields, settings)
        return 200, {"acknowledged": True}

    def _search(self, index: Index, body: dict[str, Any]) -> Answer:
        extra = set(body) - {"size", "sort", "_source", "query", "knn", "fields", "search_after"}
        extra -= {"track_scores"}
        if extra or (self.product == "opensearch" and "knn" in body):
            raise RefusedError(f"unknown key {sorted(extra) or ['knn']}")
        if body["size"] > 10_000:
            raise RefusedError("Result window is too large")
        query = body.get("query")
        if "knn" in body:
            query = {"knn": {body["knn"]["field"]: _own(body["knn"])}}
        found = [
            {"_id": name, "_score": score, "_source": index.seen[name]}
            for name, score in _scores(index, query).items()
        ]
        orders = body.get("sort", ["_score"])
        found.sort(key=lambda hit: _order(hit, orders))
        if "search_after" in body:
            found = [hit for hit in found if _order(hit, orders) > tuple(body["search_after"])]
        found = found[: body["size"]]
        hits = [_shown(hit, body, orders, self.product) for hit in found]
        return 200, {"hits": {"hits": hits}}


def _own(knn: dict[str, Any]) -> dict[str, Any]:
    if not knn["k"] <= knn["num_candidates"] <= 10_000:
        raise RefusedError("[num_candidates] must be between k and 10000")
    return {"vector": knn["query_vector"], "k": knn["k"], "filter": knn["filter"]}


def _shown(hit: dict[str, Any], body: dict[str, Any], orders: list[Any], product: str) -> Any:
    source = {key: hit["_source"][key] for key in body["_source"] if key in hit["_source"]}
    shown: dict[str, Any] = {**hit, "_source": source}
    if product == "elasticsearch" and "vector" in source:  # as since 9.2
        shown["fields"] = {"vector": source.pop("vector")}
    if orders != ["_score"]:
        shown["sort"] = list(_order(hit, orders))
    return shown


def _order(hit: dict[str, Any], orders: list[Any]) -> tuple[Any, ...]:
    return tuple(
        -hit["_score"] if one == "_score" else hit["_source"][next(iter(one))] for one in orders
    )


def _document(index: Index, method: str, name: str, params: dict[str, str], body: bytes) -> Answer:
    held = index.documents.get(name)
    if method == "GET":
        if held is None:
            return 404, {"found": False}
        version = {"_seq_no": index.versions[name], "_primary_term": 1}
        return 200, {"found": True, "_source": held, **version}
    if method == "DELETE":
        index.documents.pop(name, None)
    else:
        wanted = params.get("if_seq_no")
        if wanted is not None and int(wanted) != index.versions.get(name):
            return 409, {"error": {"type": "version_conflict_engine_exception", "reason": "newer"}}
        index.put(name, json.loads(body))
    if params.get("refresh") == "true":
        index.refresh()
    return 200 if held is not None or method == "PUT" else 404, {}


def _bulk(index: Index, lines: list[dict[str, Any]]) -> Answer:
    items, waiting = [], iter(lines)
    for line in waiting:
        ((action, told),) = line.items()
        name, error = told["_id"], None
        try:
            if action == "index":
                index.put(name, next(waiting))
            elif action == "update":
                index.put(name, {**index.documents[name], **next(waiting)["doc"]})
            elif action == "delete":
                index.documents.pop(name, None)
            else:
                raise RefusedError(f"Malformed action [{action}]")
        except (RefusedError, KeyError) as problem:
            error = {"type": "document_parsing_exception", "reason": str(problem)}
        items.append({action: {"_id": name, "error": error}})
    return 200, {"errors": any(next(iter(i.values()))["error"] for i in items), "items": items}


def _scores(index: Index, query: dict[str, Any]) -> dict[str, float]:
    """Return the documents that a query matches, with their scores."""
    ((kind, told),) = query.items()
    if kind == "match_all":
        return dict.fromkeys(index.seen, 1.0)
    if kind == "terms":
        ((name, values),) = told.items()
        return {key: 1.0 for key, one in index.seen.items() if one.get(name) in values}
    if kind == "range":
        ((name, bounds),) = told.items()
        return {key: 1.0 for key, one in index.seen.items() if _within(one[name], bounds)}
    if kind == "bool":
        return _both(index, told)
    if kind == "knn":
        return _nearest(index, told)
    if kind == "match":
        return _bm25(index, told)
    raise RefusedError(f"unknown query [{kind}]")


def _both(index: Index, told: dict[str, Any]) -> dict[str, float]:
    if set(told) - {"must", "filter"}:
        raise RefusedError(f"[bool] query does not support {sorted(told)}")
    kept = set(index.seen)
    for one in told.get("filter", ()):
        kept &= set(_scores(index, one))
    scores = dict.fromkeys(kept, 0.0)
    for one in told.get("must", ()):
        found = _scores(index, one)
        scores = {key: score + found[key] for key, score in scores.items() if key in found}
    return scores


def _within(value: int, bounds: dict[str, int]) -> bool:
    return value <= bounds.get("lte", math.inf) and value > bounds.get("gt", -math.inf)


def _nearest(index: Index, told: dict[str, Any]) -> dict[str, float]:
    ((name, asked),) = told.items()
    kept = _scores(index, asked["filter"])
    scores = {
        key: (1 + _cosine(asked["vector"], one[name])) / 2
        for key, one in index.seen.items()
        if key in kept and one.get(name)
    }
    best = sorted(scores, key=lambda key: -scores[key])[: asked["k"]]
    return {key: scores[key] for key in best}


def _cosine(one: list[float], other: list[float]) -> float:
    length = math.sqrt(sum(x * x for x in one)) * math.sqrt(sum(x * x for x in other))
    return sum(x * y for x, y in zip(one, other, strict=True)) / length


def _bm25(index: Index, told: dict[str, Any]) -> dict[str, float]:
    ((name, asked),) = told.items()
    constants = index.settings["similarity"][index.fields[name]["similarity"]]
    k1, b = constants["k1"], constants["b"]
    counts = {key: Counter(one[name].split()) for key, one in index.seen.items()}
    lengths = {key: sum(count.values()) for key, count in counts.items()}
    mean = sum(lengths.values()) / max(len(lengths), 1)
    scores: Counter[str] = Counter()
    for word in asked["query"].split():
        having = [key for key, count in counts.items() if word in count]
        rarity = math.log(1 + (len(counts) - len(having) + 0.5) / (len(having) + 0.5))
        for key in having:
            count = counts[key][word]
            scores[key] += rarity * count / (count + k1 * (1 - b + b * lengths[key] / mean))
    return dict(scores)


def _handler(server: SearchServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if server.locked and self.headers.get("authorization") != server.login:
                status, answer = 401, {"error": {"reason": "unable to authenticate user"}}
            else:
                status, answer = server.answer(self.command, self.path, body)
            if server.hangs_up(self.command, self.path):
                self.close_connection = True
                return
            sent = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(sent)))
            if server.product == "elasticsearch":
                self.send_header("x-elastic-product", "Elasticsearch")
            self.end_headers()
            self.wfile.write(sent)

        do_GET = do_PUT = do_POST = do_DELETE = _do  # noqa: N815 - http.server's names

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            del format, args

    return Handler
