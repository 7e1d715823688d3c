"""The engine's access log, and its log of failing applications."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from time import time
from typing import Any

import pytest
import trio
import trio.testing

from mcptrio.http.exchange import EXTENSION
from tests.http.engine.served import UPGRADE, Receive, Send, answering, connected, serving

__all__: list[str] = []


async def test_repeated_application_errors_are_logged_only_a_few_times(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(answering()) as port:
        for _ in range(30):
            async with connected(port) as client:
                assert (await client.ask())[0] == 500

    messages = [record.getMessage() for record in caplog.records if record.name == "mcptrio.http.server"]
    assert messages.count("the application has ended without completing its response") == 10
    assert messages[-1] == "20 more lines like these were not logged"


async def test_access_log_has_a_line_for_each_request(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mcptrio.http.access")
    async with serving(answering({"status": 404}, {}), access_log=True) as port, connected(port) as client:
        await client.ask("GET", "/a%0Ab?token=secret", authorization="Bearer secret")

    (line,) = [record.getMessage() for record in caplog.records if record.name == "mcptrio.http.access"]
    assert '"GET /a\\nb" 404 ' in line
    assert line.endswith(" ms")
    assert "secret" not in line


async def test_access_log_has_a_line_for_each_end(caplog: pytest.LogCaptureFixture) -> None:
    """A client that disconnects before its response, and WebSockets that are accepted or refused."""
    caplog.set_level(logging.INFO)
    question_asked = trio.Event()

    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": f"websocket.{'accept' if scope['path'] == '/ws' else 'close'}"})
        else:
            question_asked.set()
        while not (await receive())["type"].endswith(".disconnect"):
            pass

    async with serving(app, access_log=True) as port:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(b"GET /left HTTP/1.1\r\nhost: a\r\n\r\n")
            await question_asked.wait()
        for path in (b"/ws", b"/refused"):
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all(UPGRADE % path)
                await stream.receive_some()

    records = [record for record in caplog.records if record.name == "mcptrio.http.access"]
    lines = sorted(record.getMessage().partition(" ")[2].rpartition(" ")[0] for record in records)
    assert [line.rpartition(" ")[0] for line in lines] == ['"GET /left" 499', '"GET /refused" 403', '"GET /ws" 101']
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_access_log_records_client_end_and_application_note(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "mcptrio.http.access")

    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        scope["extensions"][EXTENSION].note = "tools/call a\nb"
        await answering({"status": 200}, {})(scope, receive, send)

    async with serving(app, access_log=True) as port, connected(port) as client:
        host, local = client.stream.socket.getsockname()
        await client.ask()
        ended = time()
        await client.ask()

    first, second = [record for record in caplog.records if record.name == "mcptrio.http.access"]
    assert first.getMessage().startswith(f'{host}:{local} "GET /" 200 ')
    assert first.getMessage().endswith(" ms tools/call a\\nb")
    assert first.created <= ended <= second.created


async def test_access_log_is_off_by_default(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mcptrio.http.access")
    async with serving(answering({"status": 200}, {})) as port, connected(port) as client:
        await client.ask()

    assert not [record for record in caplog.records if record.name == "mcptrio.http.access"]
