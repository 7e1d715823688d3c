"""The metrics of one ``mcptrio serve``: measured by observers, read from the server, sent to OpenTelemetry or shown.

The page ``/metrics`` has its own port, whatever the transport is. It is served on this machine only unless the operator
names another address, because it needs no credentials.

Source: Prometheus exposition formats.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import trio

from mcptrio.errors import ConfigError
from mcptrio.serve.gauges import LoopLag, ServerGauges
from mcptrio.server import Server
from mcptrio.telemetry.instruments import MetricsBackend
from mcptrio.telemetry.measures import Measures

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

    from mcptrio.telemetry.prometheus import PrometheusMetrics

__all__ = ["ServedMetrics"]

_PATH: Final = "/metrics"
_CONNECTIONS: Final = 16
"""Connections at the same time: a scraper needs one."""


class ServedMetrics:
    """
    Args:
        address: The address of the page, as for :func:`mcptrio.transports.sockets.listen`; ``None`` for no page.
        provider: Gets the metrics too; ``None`` for no OpenTelemetry.

    Raises:
        ConfigError: ``prometheus-client`` is not installed.
    """

    def __init__(self, address: str | None, provider: MeterProvider | None) -> None:
        backends: list[MetricsBackend] = []
        self._address = address
        self._page: PrometheusMetrics | None = None
        if address is not None:
            try:
                from mcptrio.telemetry.prometheus import PrometheusMetrics
            except ModuleNotFoundError as error:
                raise ConfigError(f"--metrics: needs pip install 'mcptrio[prometheus]' ({error})") from error
            self._page = PrometheusMetrics()
            backends.append(self._page)
        if provider is not None:
            from mcptrio.telemetry.otel_metrics import OTelMetrics

            backends.append(OTelMetrics(provider))
        self._measures = Measures(backends)
        self._lag = LoopLag()

    def attach(self, server: Server) -> None:
        """Measure this server."""
        server.add_observer(self._measures)
        self._measures.observe(ServerGauges(server, self._lag).read)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Measure the event loop and serve the page, until cancelled.

        Raises:
            OSError: The address cannot be bound.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._lag.watch)
            if self._address is not None:
                from mcptrio.http.engine.server import ConnectionLimits, serve_asgi

                limits = ConnectionLimits(connections=_CONNECTIONS)

                async def serve(*, task_status: trio.TaskStatus[list[str]]) -> None:
                    await serve_asgi(
                        self._answer,
                        bind=self._address or "",
                        limits=limits,
                        shutdown_timeout=0.0,
                        task_status=task_status,
                    )

                await nursery.start(serve)
            task_status.started()

    async def _answer(self, scope: Any, _receive: object, send: Callable[[Any], Awaitable[None]]) -> None:
        if scope["type"] != "http" or self._page is None:
            return
        is_found = scope["path"] == _PATH and scope["method"] in ("GET", "HEAD")
        body = self._page.text() if is_found else b""
        kind = self._page.content_type.encode()
        headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200 if is_found else 404, "headers": headers})
        await send({"type": "http.response.body", "body": body})
