"""The metrics of a server that ``mcptrio serve`` runs: on the page ``/metrics``, and sent to OpenTelemetry.

The page (:mod:`mcptrio.serve.metrics_page`) is on its own port with any transport, or on the port of HTTP.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from mcptrio.errors import ConfigError
from mcptrio.serve.gauges import LoopLag, ServerGauges
from mcptrio.server import Server
from mcptrio.telemetry.instruments import MetricsBackend
from mcptrio.telemetry.metrics_observer import MetricsObserver

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

    from mcptrio.abc import Guard
    from mcptrio.serve.metrics_page import MetricsPage
    from mcptrio.telemetry.prometheus import PrometheusMetrics

__all__ = ["ServedMetrics"]

_CONNECTIONS: Final = 16
"""Concurrent connections to the page; a scraper needs one."""


class ServedMetrics:
    """The metrics of a server, for the page, the OpenTelemetry provider, or both.

    Args:
        address: The address of the page, as for :func:`mcptrio.transports.sockets.listen`; empty for a page on the port
            of HTTP, which :meth:`attach_page` adds; ``None`` for no page.
        provider: Receives the metrics; ``None`` for no OpenTelemetry.

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
                raise ConfigError(
                    f"--metrics needs prometheus-client: pip install 'mcptrio[prometheus]' ({error})"
                ) from error
            self._page = PrometheusMetrics()
            backends.append(self._page)
        if provider is not None:
            from mcptrio.telemetry.otel_metrics import OTelMetrics

            backends.append(OTelMetrics(provider))
        self._measures = MetricsObserver(backends)
        self._lag = LoopLag()

    def attach(self, server: Server) -> None:
        """Measure this server."""
        server.add_observer(self._measures)
        self._measures.observe(ServerGauges(server, self._lag).read)

    def attach_page(self, server: Server, guard: Guard | None, scope: str) -> None:
        """Show the page on the port of this server's MCP endpoint, if the page has no address.

        Args:
            guard: Verifies access tokens; without one, the page needs no token, like the endpoint.
            scope: The scope that a token needs.
        """
        if self._address == "":
            page = self._make_page(guard, scope)
            server.catalog.routes.add("/metrics", page, server.catalog.own)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Measure the event loop and serve a page with an address, until cancelled.

        Raises:
            OSError: The address cannot be bound.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._lag.watch)
            if self._address:
                from mcptrio.http.engine.server import ConnectionLimits, serve_asgi

                limits = ConnectionLimits(connections=_CONNECTIONS)
                page = self._make_page()
                serve = partial(serve_asgi, page, bind=self._address, limits=limits, shutdown_timeout=0.0)
                await nursery.start(serve)
            task_status.started()

    def _make_page(self, guard: Guard | None = None, scope: str = "") -> MetricsPage:
        from mcptrio.serve.metrics_page import MetricsPage

        assert self._page is not None, "an address makes it"
        return MetricsPage(self._page.text, self._page.content_type, guard, scope)
