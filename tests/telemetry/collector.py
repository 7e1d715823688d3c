"""A collector of OTLP over HTTP in this process, which keeps what it receives as the official protobufs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

__all__ = ["Collector", "collecting"]


class Collector:
    """The traces and metrics that have arrived."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.traces: list[ExportTraceServiceRequest] = []
        self.metrics: list[ExportMetricsServiceRequest] = []

    @property
    def spans(self) -> list[tuple[str, Any]]:
        """Each span, with the name of its service."""
        return [
            (_text(resource.resource.attributes, "service.name"), span)
            for request in self.traces
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def named(self, service: str, name: str) -> Any:
        """The only span of a service with this name and kind."""
        [found] = [span for owner, span in self.spans if (owner, span.name) == (service, name)]
        return found


def _text(attributes: Any, key: str) -> str:
    return next((each.value.string_value for each in attributes if each.key == key), "")


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path == "/v1/traces":
                collector.traces.append(ExportTraceServiceRequest.FromString(body))
            else:
                assert self.path == "/v1/metrics"
                collector.metrics.append(ExportMetricsServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = False

    with Server(("127.0.0.1", 0), Handler) as server:
        collector = Collector(f"http://127.0.0.1:{server.server_port}")
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
