"""OpenTelemetry traces arrive at a collector: a receiver of OTLP over HTTP on the loopback."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from langchain_core.documents import Document

from ragweave import build_graph
from ragweave.errors import UsageError
from ragweave.testing import RecordingRetriever, ScriptedModel

pytest.importorskip("openinference.instrumentation.langchain")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)

from ragweave.tools.tracing import instrument, shutdown

pytestmark = pytest.mark.loopback


class Collector(HTTPServer):
    """Keeps what is sent to it."""

    received: list[tuple[str, ExportTraceServiceRequest]]

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for _, request in self.received
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.received.append((self.path, ExportTraceServiceRequest.FromString(body)))  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector(("127.0.0.1", 0), _Handler) as server:
        server.received = []
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        shutdown()
        server.shutdown()
        thread.join()


def ask(collector: Collector) -> dict[str, Any]:
    """Trace one run; return its spans by name."""
    instrument(f"http://127.0.0.1:{collector.server_port}")
    graph = build_graph(
        "concat",
        model=ScriptedModel(script=["In Paris"]),
        retriever=RecordingRetriever(documents=[Document("It is in Paris.")]),
    )
    graph.invoke({"question": "Where is the tower?"})
    shutdown()
    return {span.name: span for span in collector.spans}


def attributes(span: Any) -> dict[str, Any]:
    return {
        attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value")) for attribute in span.attributes
    }


def test_a_run_is_one_trace_of_its_graph_nodes_model_and_retriever(collector: Collector) -> None:
    spans = ask(collector)
    assert {path for path, _ in collector.received} == {"/v1/traces"}
    assert {"concat", "retrieve", "ScriptedModel", "RecordingRetriever"} <= spans.keys()
    assert len({span.trace_id for span in collector.spans}) == 1
    kinds = {name: attributes(span)["openinference.span.kind"] for name, span in spans.items()}
    assert kinds["ScriptedModel"] == "LLM"
    assert kinds["RecordingRetriever"] == "RETRIEVER"
    model = attributes(spans["ScriptedModel"])
    assert model["llm.token_count.completion"] == 3
    assert "Where is the tower?" in model["input.value"]
    resource = collector.received[0][1].resource_spans[0].resource.attributes
    assert ("service.name", "ragweave") in [(attribute.key, attribute.value.string_value) for attribute in resource]


def test_opentelemetrys_own_names_stand_beside_where_asked(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENINFERENCE_ENABLE_GENAI_SEMCONV", "true")
    spans = ask(collector)
    model, search = attributes(spans["ScriptedModel"]), attributes(spans["RecordingRetriever"])
    assert (model["gen_ai.operation.name"], model["gen_ai.usage.output_tokens"]) == ("chat", 3)
    assert (search["gen_ai.operation.name"], search["openinference.span.kind"]) == ("retrieval", "RETRIEVER")
    assert search["gen_ai.retrieval.query.text"] == "Where is the tower?"


def test_texts_are_kept_out_where_asked(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENINFERENCE_HIDE_INPUTS", "true")
    monkeypatch.setenv("OPENINFERENCE_HIDE_OUTPUTS", "true")
    ask(collector)
    sent = b"".join(request.SerializeToString() for _, request in collector.received)
    assert b"ScriptedModel" in sent
    for text in (b"Where is the tower?", b"It is in Paris.", b"In Paris"):
        assert text not in sent


def test_nothing_is_traced_after_the_end(collector: Collector) -> None:
    ask(collector)
    before = len(collector.spans)
    build_graph("direct", model=ScriptedModel(script=["1932"])).invoke({"question": "When?"})
    shutdown()
    assert len(collector.spans) == before


def test_twice_or_nowhere_is_refused(collector: Collector) -> None:
    with pytest.raises(UsageError, match="must begin with http"):
        instrument("localhost:4318")
    instrument(f"http://127.0.0.1:{collector.server_port}")
    with pytest.raises(UsageError, match="tracing is already on"):
        instrument()
