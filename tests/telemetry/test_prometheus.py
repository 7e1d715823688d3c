"""Prometheus scrapes a running server, and answers the queries of the dashboard."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.processes import serving

__all__: list[str] = []

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 60.0
"""Seconds; only a failing test waits this long."""
PLUGIN = """
from mcptrio import tool

@tool
def price(item: str) -> int:
    "A price."
    return len(item)
"""
EMPTY = (
    *("mcptrio_background_restarts_total", "mcptrio_requests_rejected_total", "mcptrio_http_refused_total"),
    *("session_duration", 'error_type!=""'),
)
"""Parts of queries that have no result, because nothing has failed and no session has ended."""


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


class Prometheus:
    def __init__(self, url: str) -> None:
        self._url = url

    def query(self, expression: str) -> list[dict[str, Any]]:
        with urlopen(f"{self._url}/api/v1/query?{urlencode({'query': expression})}", timeout=DEADLINE) as response:
            answer = json.load(response)
        assert answer["status"] == "success", answer
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    def until(self, expression: str) -> list[dict[str, Any]]:
        """Ask until there is a result."""
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            try:
                if found := self.query(expression):
                    return found
            except URLError:
                pass  # it does not listen yet
            time.sleep(0.1)
        raise AssertionError(f"no result of {expression}")


@contextmanager
def prometheus(folder: Path, target: int) -> Iterator[Prometheus]:
    """Run Prometheus, which scrapes the target five times a second."""
    program = shutil.which("prometheus")
    assert program is not None, "install Debian's package prometheus, as .ci/run does"
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 200ms, scrape_timeout: 200ms}\n"
        f"scrape_configs: [{{job_name: mcptrio, static_configs: [{{targets: ['127.0.0.1:{target}']}}]}}]\n"
    )
    port = free_port()
    words = [
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([program, *words], stdout=log, stderr=log)
    try:
        yield Prometheus(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(DEADLINE)


def test_prometheus_answers_every_query_of_the_dashboard(tmp_path: Path) -> None:
    dashboard = json.loads((ROOT / "docs" / "grafana-dashboard.json").read_text("utf-8"))
    (tmp_path / "shop.py").write_text(PLUGIN)
    port = free_port()
    with (
        serving("--stdio", "--plugin", "shop.py", "--metrics", str(port), cwd=tmp_path) as server,
        prometheus(tmp_path, port) as found,
    ):
        server.greet()
        assert server.call("price", item="bread") == "5"
        calls = 'mcp_server_operation_duration_seconds_count{gen_ai_tool_name="price"}'
        found.until(f"{calls} == 1")
        assert server.call("price", item="cake") == "4"
        [sample] = found.until(f"{calls} == 2")
        assert sample["metric"]["network_transport"] == "pipe"

        queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        assert len(queries) > 15
        for query in queries:
            asked = query.replace("$job", "mcptrio").replace("$__rate_interval", "1m")
            assert "$" not in asked
            if any(part in query for part in EMPTY):
                found.query(asked)
            else:
                found.until(asked)


def test_dashboard_uses_only_metrics_and_labels_that_exist() -> None:
    text = (ROOT / "docs" / "grafana-dashboard.json").read_text("utf-8")
    page = (ROOT / "docs" / "telemetry.md").read_text("utf-8")
    used = set(re.findall(r"\b(mcptrio_\w+|mcp_server_\w+)\b(?=\{|\()", text))
    shown = {name.replace(".", "_") for name in re.findall(r"`(mcp[\w.]+)`", page)}

    assert used
    for name in used:
        assert re.sub(r"_(seconds|bytes|total|count|bucket|sum)", "", name) in shown, name
