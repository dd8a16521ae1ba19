"""OpenTelemetry traces of graphs, models and retrievers, by OpenInference's LangChain instrumentation.

    from ragweave.tools.tracing import instrument

    instrument("http://localhost:4318")     # or by OTEL_EXPORTER_OTLP_ENDPOINT
    graph.invoke({"question": "…"})

Each run is one trace: a span for the graph, for each node, model call and retrieval, with messages,
tokens and documents as OpenInference names them, for Phoenix, Langfuse, Jaeger or any collector of
OTLP over HTTP. The standard variables hold: `OTEL_EXPORTER_OTLP_ENDPOINT`, `…_HEADERS` for keys,
`OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`. OpenInference's variables keep texts out of spans:
`OPENINFERENCE_HIDE_INPUTS=true`, `OPENINFERENCE_HIDE_OUTPUTS=true` and others; an error's own words stay.
`OPENINFERENCE_ENABLE_GENAI_SEMCONV=true` adds OpenTelemetry's own names (`gen_ai.usage.input_tokens`,
`gen_ai.retrieval.query.text`), whose conventions are not stable yet.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ragweave.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_provider: TracerProvider | None = None


def instrument(endpoint: str = "") -> TracerProvider:
    """From now on, send the spans of all runs to a collector.

    Args:
        endpoint: Base address of a collector that takes OTLP over HTTP, to which `/v1/traces` is
            added; "": `OTEL_EXPORTER_OTLP_ENDPOINT`, else `http://localhost:4318`.

    Raises:
        UsageError: Tracing is on already, or the endpoint is not an address.
        MissingExtraError: The extra `otel` is not installed.
    """
    try:
        from openinference.instrumentation.langchain import LangChainInstrumentor
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        raise MissingExtraError("Tracing by OpenTelemetry", "otel") from error

    global _provider
    if _provider is not None:
        raise UsageError("tracing is already on: call ragweave.tools.tracing.shutdown() first")
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise UsageError(f"the collector's address must begin with http:// or https://: {endpoint}")
    named = Resource.create({} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "ragweave"})
    provider = TracerProvider(resource=named)
    # Without an address, the exporter reads the variables.
    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces" if endpoint else None)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    LangChainInstrumentor().instrument(tracer_provider=provider)
    _provider = provider
    return provider


def shutdown() -> None:
    """Send the remaining spans and end the tracing; do nothing if it is off."""
    global _provider
    if _provider is None:
        return
    from openinference.instrumentation.langchain import LangChainInstrumentor

    LangChainInstrumentor().uninstrument()
    _provider.shutdown()
    _provider = None
