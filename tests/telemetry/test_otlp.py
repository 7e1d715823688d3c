"""``mcptrio serve`` exports its spans over OTLP, and one trace covers client, server and isolated process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from mcptrio import Client, Command, connect
from mcptrio.client import Form, Handlers
from mcptrio.telemetry import instrument, uninstrument
from tests.telemetry.collector import Collector, collecting

__all__: list[str] = []

DEADLINE = 60.0
"""Seconds; only a failing test waits this long."""
CLIENT = {"io.modelcontextprotocol/clientCapabilities": {}}
PLUGIN = """
from mcptrio import Context, tool

@tool
async def order(ctx: Context, item: str) -> str:
    "Order something."
    return f"{item} for {await ctx.ask('Your name?', str)}"
"""


@contextmanager
def exporting_client(collector: Collector) -> Iterator[None]:
    """Trace the clients of this process."""
    provider = TracerProvider(resource=Resource.create({"service.name": "client"}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{collector.url}/v1/traces")))
    instrument(provider)
    try:
        yield
    finally:
        uninstrument()
        provider.shutdown()


async def fill_in(form: Form) -> Any:
    return form.accept({"value": "Ada"})


def serve(folder: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "mcptrio", "serve", *words, "--config", str(folder / "mcptrio.toml")]


async def order(client: Client) -> None:
    [block] = (await client.call_tool("order", {"item": "bread"})).content
    assert block.text == "bread for Ada"  # type: ignore[union-attr]


def parent_of(spans: list[tuple[str, Any]], child: Any) -> Any:
    return next(span for _, span in spans if span.span_id == child.parent_span_id)


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_processes_of_a_call_export_one_trace(tmp_path: Path, isolated: bool, revision: str) -> None:
    (tmp_path / "shop.py").write_text(PLUGIN)
    with collecting() as collector:
        (tmp_path / "mcptrio.toml").write_text(
            f"[server]\nname = 'shop'\nenable = ['shop.py']\n[telemetry]\nendpoint = '{collector.url}'\n"
            + (f"[plugins.shop]\nisolate = {str(isolated).lower()}\n" if isolated else "")
        )
        command = Command(args=serve(tmp_path, "--stdio"), env={}, inherit_env=True)
        with exporting_client(collector), trio.fail_after(DEADLINE):
            async with connect(command, revision=revision, handlers=Handlers(elicit=fill_in)) as client:
                await order(client)

        spans = collector.spans
        calls = [(owner, span) for owner, span in spans if span.name == "tools/call order"]
        assert len({span.trace_id for _, span in calls}) == 1
        served = [span for owner, span in calls if owner == "shop" and span.kind == span.SPAN_KIND_SERVER]
        rounds = 1 if revision == "2025-11-25" else 2
        # The isolated process speaks 2026-07-28 in any case.
        assert len(served) == rounds + 2 * isolated
        assert all(parent_of(spans, span).kind == span.SPAN_KIND_CLIENT for span in served)
        asked = [span for _, span in spans if span.name == "elicitation/create"]
        assert {span.trace_id for span in asked} == {served[0].trace_id}


async def test_environment_variables_enable_the_export(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PLUGIN)
    (tmp_path / "mcptrio.toml").write_text("[server]\nenable = ['shop.py']\n")
    with collecting() as collector:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_SERVICE_NAME": "bakery"}
        command = Command(args=serve(tmp_path, "--stdio"), env=env, inherit_env=True)
        with trio.fail_after(DEADLINE):
            async with connect(command) as client:
                await client.tools().all()

        assert {owner for owner, _ in collector.spans} == {"bakery"}
        assert collector.named("bakery", "tools/list").parent_span_id == b""


@pytest.mark.parametrize("is_on", [False, True])
def test_opentelemetry_is_imported_only_if_configured(tmp_path: Path, is_on: bool) -> None:
    (tmp_path / "shop.py").write_text(
        "import sys, atexit\natexit.register(lambda: print('opentelemetry' in sys.modules, file=sys.stderr))\n" + PLUGIN
    )
    (tmp_path / "mcptrio.toml").write_text("[server]\nenable = ['shop.py']\n")
    with collecting() as collector:
        env = {**os.environ, **({"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url} if is_on else {})}
        ended = subprocess.run(serve(tmp_path, "--stdio"), input=b"", capture_output=True, env=env, timeout=DEADLINE)

    assert str(is_on).encode() in ended.stderr


def test_collector_that_does_not_answer_delays_the_end_by_the_shutdown_timeout(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PLUGIN)
    (tmp_path / "mcptrio.toml").write_text(
        "[server]\nenable = ['shop.py']\ntimeouts.shutdown = 1\n[telemetry]\nendpoint = 'http://127.0.0.1:9'\n"
    )
    envelope = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", **CLIENT}
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": envelope}}).encode()
    began = time.monotonic()
    ended = subprocess.run(serve(tmp_path, "--stdio"), input=request + b"\n", capture_output=True, timeout=DEADLINE)

    assert ended.returncode == 0, ended.stderr
    assert b'"tools"' in ended.stdout
    assert time.monotonic() - began < 15


@pytest.mark.parametrize(
    ("table", "environ", "error"),
    [
        ("endpoint = 'localhost:4318'", {}, "endpoint: expected an http or https URL, got 'localhost:4318'"),
        (
            "endpoint = 'http://localhost:4318'",
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL: expected http/protobuf, got 'grpc'",
        ),
    ],
)
def test_wrong_configuration_is_an_error(tmp_path: Path, table: str, environ: dict[str, str], error: str) -> None:
    (tmp_path / "shop.py").write_text(PLUGIN)
    (tmp_path / "mcptrio.toml").write_text(f"[server]\nenable = ['shop.py']\n[telemetry]\n{table}\n")
    ended = subprocess.run(
        serve(tmp_path, "--stdio"), input="", capture_output=True, text=True, env={**os.environ, **environ}, timeout=60
    )

    assert ended.returncode == 2
    assert error in ended.stderr
