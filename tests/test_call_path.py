"""A tool call enters few of our files, and always the same ones.

A warm call is made in this process, with a profiler that records the file of each function. A file outside the lists
below fails the test, so a longer path is a decision; a file that is no longer entered must be removed. The clock does
not move, so no periodic task runs meanwhile.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import mcptrio
from mcptrio import Server
from mcptrio.serve.http import serve_http
from mcptrio.transports.fd_streams import open_reader, open_writer
from mcptrio.transports.line_channel import LineChannel
from mcptrio.transports.lines import LineFramer

__all__: list[str] = []

DESIGN = Path(__file__).resolve().parent.parent / "docs" / "design.md"
PACKAGE = f"{Path(mcptrio.__file__).parent}{os.sep}"
HANDSHAKE = "2025-11-25"
MODERN = "2026-07-28"
INFO = {"name": "call-path", "version": "1"}
PREFIX = "io.modelcontextprotocol/"
ENVELOPE = {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientInfo": INFO, f"{PREFIX}clientCapabilities": {}}

ALWAYS = """
    capabilities/calls capabilities/tools
    ground/guarded ground/waiter ground/workers
    protocol/connection protocol/jsonrpc
    protocol/revisions/converter
    runtime/gate runtime/request runtime/session runtime/work
    schema/signatures
"""
STDIO = """
    outbox
    transports/fd_streams transports/line_channel transports/lines
"""
HTTP = """
    ground/shares
    http/engine/connection http/engine/engine http/engine/exchange http/engine/request_parser
    http/engine/wire
    http/server/app http/server/exchange http/server/rules
"""
HTTP_SESSION = """
    http/server/sessions http/server/stateful
    stores/memory
"""
HTTP_ALONE = """
    http/server/stateless
    runtime/supervisor
"""

ENTERED = {
    ("stdio", HANDSHAKE): ALWAYS + STDIO,
    ("stdio", MODERN): ALWAYS + STDIO,
    ("http", HANDSHAKE): ALWAYS + HTTP + HTTP_SESSION,
    ("http", MODERN): ALWAYS + HTTP + HTTP_ALONE,
}

AT_MOST = {"stdio": 17, "http": 25}
"""Files of the longest path. It may only shrink."""

Wire = Callable[[dict[str, Any]], Any]
"""Sends a message, and returns the answer to a request."""


async def echo(text: str) -> str:
    """Return the text."""
    return text


def request(method: str, params: dict[str, Any], revision: str, id: int | None) -> dict[str, Any]:
    more = {"id": id} if id is not None else {}
    meta = {"_meta": ENVELOPE} if revision == MODERN else {}
    return {"jsonrpc": "2.0", "method": method, "params": {**params, **meta}, **more}


@asynccontextmanager
async def over_stdio(revision: str) -> AsyncIterator[Wire]:
    server = Server()
    server.add_tool(echo)
    (theirs, to_server), (from_server, ours) = os.pipe(), os.pipe()
    channel = LineChannel(open_reader(theirs), open_writer(ours, shared=False), LineFramer())

    async def exchange(message: dict[str, Any]) -> Any:
        os.write(to_server, json.dumps(message).encode() + b"\n")
        if "id" in message:
            await trio.lowlevel.wait_readable(from_server)
            return json.loads(os.read(from_server, 65536))
        return None

    try:
        async with server.open(), trio.open_nursery() as nursery:
            nursery.start_soon(server.supervisor.serve, channel)
            yield exchange
            nursery.cancel_scope.cancel()
    finally:
        os.close(to_server)
        os.close(from_server)


@asynccontextmanager
async def over_http(revision: str) -> AsyncIterator[Wire]:
    server = Server()
    server.add_tool(echo)
    session: dict[str, str] = {}
    async with trio.open_nursery() as nursery:
        url, *_ = await nursery.start(partial(serve_http, server, port=0))
        port = int(url.split(":")[2].split("/")[0])
        stream = await trio.open_tcp_stream("127.0.0.1", port)

        async def exchange(message: dict[str, Any]) -> Any:
            body = json.dumps(message).encode()
            headers = {
                "host": f"127.0.0.1:{port}",
                "content-type": "application/json",
                "accept": "application/json, text/event-stream",
                "content-length": str(len(body)),
                "mcp-protocol-version": revision,
                **session,
            }
            if revision == MODERN:
                headers |= {"mcp-method": message["method"], "mcp-name": message["params"].get("name", "")}
            head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            await stream.send_all(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
            return await response()

        async def response() -> Any:
            received = b""
            while True:
                received += await stream.receive_some()
                head, end, body = received.partition(b"\r\n\r\n")
                lines = [line.partition(": ") for line in head.decode().split("\r\n")[1:]]
                fields = {name.lower(): value for name, _, value in lines}
                session.update({name: value for name, value in fields.items() if name == "mcp-session-id"})
                if end and "transfer-encoding" in fields and body.endswith(b"0\r\n\r\n"):
                    return body.decode()
                if end and len(body) == int(fields.get("content-length", -1)):
                    return body.decode()

        yield exchange
        await stream.aclose()
        nursery.cancel_scope.cancel()


@contextmanager
def entered(files: set[str]) -> Iterator[None]:
    """While inside, note which of our files are entered."""

    def note(frame: Any, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(PACKAGE):
            files.add(Path(name).relative_to(PACKAGE).with_suffix("").as_posix())

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize(("carrier", "revision"), ENTERED)
async def test_tool_call_enters_only_the_listed_files(
    carrier: str, revision: str, mock_clock: trio.testing.MockClock
) -> None:
    files: set[str] = set()
    async with {"stdio": over_stdio, "http": over_http}[carrier](revision) as exchange:
        if revision == HANDSHAKE:
            params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": INFO}
            await exchange(request("initialize", params, revision, 0))
            await exchange(request("notifications/initialized", {}, revision, None))
        call = partial(request, "tools/call", {"name": "echo", "arguments": {"text": "warm"}}, revision)
        for number in range(1, 4):
            await exchange(call(number))
        await trio.testing.wait_all_tasks_blocked()
        with entered(files):
            answer = await exchange(call(4))
            await trio.testing.wait_all_tasks_blocked()

    assert "warm" in str(answer)
    assert sorted(files) == sorted(ENTERED[carrier, revision].split())


@pytest.mark.parametrize("carrier", AT_MOST)
def test_longest_path_has_the_stated_number_of_files(carrier: str) -> None:
    assert max(len(files.split()) for (over, _), files in ENTERED.items() if over == carrier) == AT_MOST[carrier]


@pytest.mark.parametrize(("carrier", "revision"), ENTERED)
def test_tool_call_enters_the_files_named_in_the_design(carrier: str, revision: str) -> None:
    section = DESIGN.read_text().partition("## The path of a call")[2].partition("\n## ")[0]
    table = section.split("| what it does in a call |\n")[1:][carrier == "http"].partition("\n\n")[0]

    rows = [re.findall(r"`([a-z0-9_/]+)`", row.split("|")[1]) for row in table.splitlines()[1:]]

    assert len(rows) == {"stdio": 6, "http": 8}[carrier]
    assert all(set(files) & set(ENTERED[carrier, revision].split()) for files in rows)
