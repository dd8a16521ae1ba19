"""OpenTelemetry traces of graphs, models and retrievers, by OpenInference's LangChain instrumentation.

    from ragweave.tools.tracing import instrument

    instrument("http://localhost:4318")     # or by OTEL_EXPORTER_OTLP_ENDPOINT
    graph.invoke({"question": "…"})

Each run is one trace: a span for the graph, for each node, model call and retrieval, with messages,
tokens and documents as OpenInference names them, for Phoenix, Langfuse, Jaeger or any collector of
OTLP over HTTP. The standard variables hold: `OTEL_EXPORTER_OTLP_ENDPOINT`, `…_HEADERS` for keys,
`OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`. OpenInference's variables keep texts out of spans:
`OPENINFERENCE_HIDE_INPUTS`, `…_OUTPUTS`, `…_INPUT_MESSAGES`, `…_OUTPUT_MESSAGES`, `…_INPUT_TEXT`,
`…_OUTPUT_TEXT`, `…_PROMPTS`, `…_CHOICES` and others; with any of them an error's own words, which
may quote a text, stay out too.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ragweave.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

_PATIENCE = 5_000
"""Milliseconds that spans may take to leave at the end."""
_ERROR, _KIND = "exception.", "exception.type"
"""OpenTelemetry's names of what a span's event says of an exception."""

_provider: TracerProvider | None = None


def instrument(endpoint: str = "", *, hide_text: bool = False, exporter: SpanExporter | None = None) -> TracerProvider:
    """Send the spans of everything that runs from now on to a collector.

    Args:
        endpoint: Base address of a collector that takes OTLP over HTTP, to which `/v1/traces` is
            added; "": `OTEL_EXPORTER_OTLP_ENDPOINT`, else `http://localhost:4318`.
        hide_text: Whether inputs and outputs (questions, prompts, passages, answers) are left out,
            and of errors all but their kind.
        exporter: Where spans go in place of a collector.

    Returns:
        The tracer provider; `shutdown` ends the tracing.

    Raises:
        UsageError: It is on already, or the endpoint is no address.
        MissingExtraError: The extra `otel` is not installed.
    """
    try:
        from openinference.instrumentation import TraceConfig
        from openinference.instrumentation.langchain import LangChainInstrumentor
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        raise MissingExtraError("Tracing by OpenTelemetry", "otel") from error

    global _provider
    if _provider is not None:
        raise UsageError("tracing is on already: call ragweave.tools.tracing.shutdown() first")
    named = Resource.create({} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "ragweave"})
    config = TraceConfig(hide_inputs=True, hide_outputs=True) if hide_text else TraceConfig()
    out = exporter or _exporter(endpoint)
    if any(hidden for name, hidden in vars(config).items() if name.startswith("hide_")):
        _hide_errors(out)
    provider = TracerProvider(resource=named)
    provider.add_span_processor(BatchSpanProcessor(out))
    LangChainInstrumentor().instrument(tracer_provider=provider, config=config)
    _provider = provider
    return provider


def shutdown() -> None:
    """Send what is left and end the tracing; without any, do nothing."""
    global _provider
    if _provider is None:
        return
    from openinference.instrumentation.langchain import LangChainInstrumentor

    LangChainInstrumentor().uninstrument()
    _provider.force_flush(_PATIENCE)
    _provider.shutdown()
    _provider = None


def _exporter(endpoint: str) -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise UsageError(f"the collector's address must begin with http:// or https://: {endpoint}")
    # Without an address it reads the variables, and else sends to localhost:4318.
    return OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces" if endpoint else None)


def _hide_errors(exporter: Any) -> None:
    """Make an exporter send of errors their kind alone: a message may quote a prompt."""
    export = exporter.export
    exporter.export = lambda spans: export([_without_error_text(span) for span in spans])


def _without_error_text(span: ReadableSpan) -> ReadableSpan:
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.trace import Status

    events = [
        Event(
            one.name,
            {key: value for key, value in (one.attributes or {}).items() if key == _KIND or not key.startswith(_ERROR)},
            one.timestamp,
        )
        for one in span.events
    ]
    fields = ("name", "context", "parent", "resource", "attributes", "links", "kind", "start_time", "end_time")
    same: dict[str, Any] = {name: getattr(span, name) for name in (*fields, "instrumentation_scope")}
    return ReadableSpan(**same, events=events, status=Status(span.status.status_code))
