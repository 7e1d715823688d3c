"""``/metrics`` on the port of HTTP: its guard, and its counts of refused HTTP requests."""

from __future__ import annotations

import http.client
import re
import socket
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from tests.processes import HELLO, WAIT_TIMEOUT, line, run, serving

__all__: list[str] = []

PLUGIN = "from mcptrio import tool\n\n@tool\ndef price() -> int:\n    'A price.'\n    return 3\n"
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(PLUGIN)
    return tmp_path


def ask(
    port: int, path: str = "/metrics", *, method: str = "GET", body: bytes = b"", **headers: str
) -> tuple[int, Mapping[str, str], str]:
    """Return the status, the headers and the body of a response. ``_`` in a header's name stands for ``-``."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_TIMEOUT)) as connection:
        connection.request(method, path, body or None, named)
        response = connection.getresponse()
        return response.status, response.headers, response.read().decode()


def refused(page: str) -> dict[str, int]:
    matches = re.findall(r'(?m)^mcptrio_http_refused_total\{mcptrio_reason="(\w+)"\} (\d+)', page)
    return {reason: int(count) for reason, count in matches}


def test_page_is_as_open_as_an_endpoint_without_authentication(folder: Path) -> None:
    with serving("--http", "--port=0", "--plugin=shop.py", "--metrics", cwd=folder) as served:
        port = served.port
        status, headers, page = ask(port)
        head = ask(port, method="HEAD")
        others = {
            "host": ask(port, Host="attacker.example")[0],
            "origin": ask(port, Origin="http://localhost:3000")[0],
            "malformed": ask(port, method="POST")[0],
            "path": ask(port, "/metrics/more")[0],
        }
        counts = refused(ask(port)[2])

    assert status == head[0] == 200
    assert headers["content-type"].startswith("text/plain; version=")
    assert 'mcptrio_plugins{mcptrio_plugin_state="running"} 1.0' in page
    assert head[2] == ""
    assert others == {"host": 421, "origin": 403, "malformed": 405, "path": 404}
    assert counts == dict.fromkeys(others, 1)


def test_page_of_a_protected_server_needs_a_token_with_the_scope(folder: Path) -> None:
    tokens = {}
    for name, scopes in (("prometheus", ("metrics",)), ("ada", ("mcp",)), ("other", ("numbers",))):
        args = [word for scope in scopes for word in ("--scope", scope)]
        tokens[name] = run("token", "new", name, *args, "--file", "tokens.json", cwd=folder).stdout.strip()
    (folder / "mcptrio.toml").write_text('[auth]\ntokens = "tokens.json"\n')
    args = ("--http", "--port=0", "--plugin=shop.py", "--metrics")
    with serving(*args, cwd=folder) as served:
        anonymous = ask(served.port)
        ada, prometheus = (ask(served.port, Authorization=f"Bearer {tokens[name]}") for name in ("ada", "prometheus"))
    with serving(*args, cwd=folder, env={"MCPTRIO_TELEMETRY_METRICS_SCOPE": "numbers"}) as served:
        renamed = [ask(served.port, Authorization=f"Bearer {tokens[name]}")[0] for name in ("prometheus", "other")]

    assert anonymous[0] == 401
    assert anonymous[1]["www-authenticate"].startswith("Bearer")
    assert ada[0] == 403
    assert 'error="insufficient_scope"' in ada[1]["www-authenticate"]
    assert prometheus[0] == 200
    assert refused(prometheus[2]) == {"authentication": 1, "authorization": 1}
    assert "ada" not in prometheus[2]
    assert renamed == [403, 200]


def test_refusals_of_the_endpoint_and_of_the_engine_are_counted(folder: Path) -> None:
    (folder / "mcptrio.toml").write_text("[http]\nsession_rate = 0.001\nsession_burst = 1\n")
    with serving("--http", "--port=0", "--plugin=shop.py", "--metrics", cwd=folder) as served:
        port = served.port
        size = ask(port, "/mcp", method="POST", Content_Length="99999999999", **_plain(JSON))[0]
        session = ask(port, "/mcp", method="POST", body=line(HELLO), Mcp_Session_Id="none", **_plain(JSON))[0]
        unknown = ask(port, "/mcp", method="DELETE", Mcp_Session_Id="none")[0]
        first, second = (ask(port, "/mcp", method="POST", body=line(HELLO), **_plain(JSON))[0] for _ in range(2))
        with socket.create_connection(("127.0.0.1", port), WAIT_TIMEOUT) as raw:
            raw.sendall(b"GET /mcp HTTP/1.1\r\n\r\n")
            assert raw.recv(65536).startswith(b"HTTP/1.1 400")
        counts = refused(ask(port)[2])

    assert (size, session, unknown, first, second) == (413, 400, 404, 200, 429)
    assert counts == {"size": 1, "malformed": 2, "session": 1, "rate": 1}


def test_page_needs_a_port_if_the_server_has_none(folder: Path) -> None:
    result = run("serve", "--stdio", "--plugin=shop.py", "--metrics", cwd=folder)

    assert result.returncode == 2
    assert "--metrics: expected a port, because stdio has no HTTP port, got none" in result.stderr


def _plain(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("-", "_"): value for name, value in headers.items()}
