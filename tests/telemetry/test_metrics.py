"""Metrics of servers and clients: values, labels and bounds, on the page for Prometheus and over OTLP."""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import trio
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.parser import text_string_to_metric_families

from mcptrio import Client, Command, Context, MCPError, Server, ToolError, connect, resource, tool
from mcptrio.abc.observers import RequestEnded
from mcptrio.client import Form, Handlers
from mcptrio.serve.gauges import LoopLag, ServerGauges
from mcptrio.telemetry import instrument, uninstrument
from mcptrio.telemetry.metrics_observer import MAX_VALUES, MetricsObserver
from mcptrio.telemetry.prometheus import PrometheusMetrics
from tests.processes import serving
from tests.telemetry.collector import collecting

__all__: list[str] = []

DEADLINE = 60.0
"""Seconds; only a failing test waits this long."""


PLUGIN = """
from mcptrio import tool

@tool
def price() -> int:
    "A price."
    return 3
"""


class Shop:
    def __init__(self) -> None:
        self.entered = trio.Event()

    @tool
    async def price(self, item: str) -> str:
        """Return a price."""
        if item == "gold":
            raise ToolError("too dear")
        return f"{item}: 3"

    @tool
    async def order(self, ctx: Context) -> str:
        """Ask for a name."""
        return await ctx.ask("Your name?", str)

    @tool
    async def hang(self) -> str:
        """Wait for ever."""
        self.entered.set()
        await trio.sleep_forever()
        raise AssertionError

    @resource("shop://{secret}")
    async def shelf(self, secret: str) -> str:
        """A shelf."""
        return secret


def samples(metrics: PrometheusMetrics) -> dict[tuple[str, tuple[str, ...]], float]:
    """The samples of a page, by name and the values of the labels that are not empty."""
    return {
        (
            sample.name,
            tuple(value for name, value in sorted(sample.labels.items()) if value and name != "le"),
        ): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }


@asynccontextmanager
async def measured(shop: Shop) -> AsyncIterator[tuple[Client, PrometheusMetrics]]:
    server, metrics = Server(plugins=[shop]), PrometheusMetrics()
    measures = MetricsObserver([metrics])
    server.add_observer(measures)
    measures.observe(ServerGauges(server, LoopLag()).read)

    async def fill_in(form: Form) -> Any:
        return form.accept({"value": "Ada"})

    async with server.open(), connect(server, handlers=Handlers(elicit=fill_in)) as client:
        yield client, metrics


async def test_requests_are_measured_with_bounded_labels() -> None:
    async with measured(Shop()) as (client, metrics):
        await client.call_tool("price", {"item": "bread"})
        await client.call_tool("price", {"item": "gold"})
        for name in ("unknown-1", "unknown-2"):
            with pytest.raises(MCPError):
                await client.call_tool(name)
        await client.call_tool("order")
        await client.read_resource("shop://hunter22")
        metric_samples, page = samples(metrics), metrics.text().decode()

    calls = {
        key[1]: value
        for key, value in metric_samples.items()
        if key[0] == "mcp_server_operation_duration_seconds_count"
    }
    call, pipe = ("tools/call", "2026-07-28"), ("pipe",)
    assert calls["price", *call, *pipe] == 1
    assert calls["tool_error", "price", *call, *pipe] == 1
    assert calls["-32602", *call, *pipe] == 2
    assert calls["order", *call, *pipe] == 2
    assert calls["resources/read", "2026-07-28", *pipe] == 1
    assert "hunter22" not in page
    assert "unknown" not in page


async def test_gauges_are_those_of_the_moment() -> None:
    async with measured(shop := Shop()) as (client, metrics), trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "hang")
        await shop.entered.wait()
        metric_samples = samples(metrics)
        nursery.cancel_scope.cancel()

    assert metric_samples["mcptrio_requests_in_flight", ()] == 1
    assert metric_samples["mcptrio_sessions", ("memory",)] == 1
    assert metric_samples["mcptrio_plugins", ("running",)] == 1
    assert {name for name, _ in metric_samples} >= {
        *("mcptrio_streams", "mcptrio_handlers_parked", "mcptrio_tasks", "mcptrio_threads", "mcptrio_outbox_fill"),
        *("mcptrio_store_queue", "mcptrio_event_loop_lag_seconds", "mcptrio_io_bytes_total"),
    }


def test_label_has_a_bounded_number_of_values() -> None:
    metrics = PrometheusMetrics()
    measures = MetricsObserver([metrics])
    values: dict[str, Any] = {"session": 1, "channel": "http", "id": 1, "method": "tools/call", "plugin": None}
    values |= {"revision": "2026-07-28", "client": None, "principal": "ada", "seconds": 0.1, "waited": 0.0}
    for number in range(MAX_VALUES + 50):
        measures.request_ended(
            RequestEnded(**values, label=f"tool-{number}", outcome="result", code=None, message=None)
        )
    measures.request_refused("tools/call", "memory")

    metric_samples = samples(metrics)
    counts = [key for key in metric_samples if key[0] == "mcp_server_operation_duration_seconds_count"]
    assert len(counts) == MAX_VALUES + 1
    assert sum(metric_samples[key] for key in counts if "other" in key[1]) == 50
    assert metric_samples["mcptrio_requests_rejected_total", ("memory",)] == 1
    assert "ada" not in metrics.text().decode()


@pytest.fixture
def reader() -> Iterator[InMemoryMetricReader]:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    instrument(meter_provider=provider)
    try:
        yield reader
    finally:
        uninstrument()
        provider.shutdown()


async def test_clients_are_measured_through_opentelemetry(reader: InMemoryMetricReader) -> None:
    async with measured(Shop()) as (client, _):
        await client.call_tool("price", {"item": "gold"})

    data = reader.get_metrics_data()
    assert data is not None
    found = {each.name: each for each in data.resource_metrics[0].scope_metrics[0].metrics}
    points = found["mcp.client.operation.duration"].data.data_points
    assert [
        dict(point.attributes or {}) for point in points if (point.attributes or {})["mcp.method.name"] == "tools/call"
    ] == [
        {
            "mcp.method.name": "tools/call",
            "gen_ai.tool.name": "price",
            "error.type": "tool_error",
            "mcp.protocol.version": "2026-07-28",
        }
    ]
    assert len(found["mcp.client.session.duration"].data.data_points) == 1


async def test_metrics_of_the_server_go_to_the_collector(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "from mcptrio import tool\n\n@tool\ndef price() -> int:\n    'A price.'\n    return 3\n"
    )
    with collecting() as collector:
        args = [sys.executable, "-m", "mcptrio", "serve", "--stdio", "--plugin", str(tmp_path / "shop.py")]
        command = Command(args=args, env={"MCPTRIO_TELEMETRY_ENDPOINT": collector.url}, inherit_env=True)
        with trio.fail_after(DEADLINE):
            async with connect(command) as client:
                await client.call_tool("price")

        names = {
            metric.name
            for request in collector.metrics
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }
    assert names >= {"mcp.server.operation.duration", "mcptrio.streams", "mcptrio.io", "mcptrio.event_loop.lag"}


@pytest.fixture
def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def fetch(url: str) -> str:
    with urlopen(url, timeout=DEADLINE) as response:
        text: str = response.read().decode()
        return text


@pytest.mark.parametrize("transport", ["--stdio", "--http"])
def test_page_is_served_beside_any_transport(tmp_path: Path, transport: str, free_port: int) -> None:
    (tmp_path / "shop.py").write_text(
        "from mcptrio import tool\n\n@tool\ndef price() -> int:\n    'A price.'\n    return 3\n"
    )
    words = [transport, *(["--port", "0"] if transport == "--http" else []), "--plugin", "shop.py"]
    with serving(*words, "--metrics", str(free_port), cwd=tmp_path) as server:
        if transport == "--stdio":
            server.greet()
            assert server.call("price") == "3"
        else:
            server.until("serving ")
        page = fetch(f"http://127.0.0.1:{free_port}/metrics")
        with pytest.raises(OSError, match="404"):
            fetch(f"http://127.0.0.1:{free_port}/")

    assert "mcptrio_sessions" in page or transport == "--http"
    assert "mcptrio_plugins" in page


def test_workers_have_no_page(tmp_path: Path) -> None:
    with serving("--http", "--metrics", "1", cwd=tmp_path, env={"MCPTRIO_HTTP_WORKERS": "2"}) as server:
        code, _ = server.end()

    assert code == 2
    assert "; with several, set telemetry.endpoint" in server.stderr
