"""Requests that do not name their call are never sent to a client that may not be the right one."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio
import trio.testing
from attrs import evolve

from mcptrio import Client, Command, Mount, Server, connect
from tests.mounting.mounted import WAIT_TIMEOUT, WAITING, User, eventually

__all__: list[str] = []

OLD = "2025-11-25"

STUBBORN = """
import json, pathlib, sys, threading, time

answers = {}

def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
    sys.stdout.flush()

def until(path):
    while not path.exists():
        time.sleep(0.005)

def ask(id, mark):
    answers[f"q{id}"] = mark
    schema = {"type": "object", "properties": {"value": {"type": "string"}}}
    send(id=f"q{id}", method="elicitation/create", params={"message": "Whose?", "requestedSchema": schema})

def call(id, name, mark):
    mark.with_suffix(".began").touch()
    if name == "wait_and_ask":
        until(mark)
        ask(id, mark)
    elif name == "ask_and_return":
        ask(id, mark)
    elif name == "wait":
        until(mark)
    if name != "wait_and_ask":
        send(id=id, result={"content": [{"type": "text", "text": "done"}]})

tools = [
    {"name": name, "inputSchema": {"type": "object", "properties": {"mark": {"type": "string"}}}}
    for name in ("wait_and_ask", "ask_and_return", "wait")
]
for line in sys.stdin:
    message = json.loads(line)
    id, method = message.get("id"), message.get("method")
    if method == "initialize":
        info = {"name": "stubborn", "version": "1"}
        send(id=id, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "tools/list":
        send(id=id, result={"tools": tools})
    elif method == "tools/call":
        params = message["params"]
        arguments = (id, params["name"], pathlib.Path(params["arguments"]["mark"]))
        threading.Thread(target=call, args=arguments, daemon=True).start()
    elif id in answers:
        answers[id].with_suffix(".answer").write_text(line)
    elif id is not None:
        send(id=id, error={"code": -32601, "message": "no such method"})
"""
"""A handshake server that ignores cancellations, and cancels its own requests without a notification."""


@asynccontextmanager
async def two_clients() -> AsyncIterator[tuple[Client, User, Client, User, Mount]]:
    """Two clients of a server in which the stubborn server is mounted."""
    one, other = User(), User(colour="red")
    command = Command(args=[sys.executable, "-c", STUBBORN])
    mount = Mount(command, name="up", options=evolve(WAITING, revision=OLD))
    with trio.fail_after(WAIT_TIMEOUT):
        server = Server(plugins=[mount])
        async with (
            server.open(),
            connect(server, revision=OLD, handlers=one.handlers()) as first,
            connect(server, revision=OLD, handlers=other.handlers()) as second,
        ):
            yield first, one, second, other, mount


async def begun(nursery: trio.Nursery, client: Client, tool: str, mark: Path) -> trio.CancelScope:
    """Run a call until the server handles it. Cancelling the scope cancels the call."""
    scope = trio.CancelScope()

    async def call() -> None:
        with scope:
            await client.call_tool(f"up_{tool}", {"mark": str(mark)})

    nursery.start_soon(call)
    await eventually(mark.with_suffix(".began").exists)
    return scope


async def answer(mark: Path) -> str:
    """Return the response that the server received to its request."""
    await eventually(lambda: mark.with_suffix(".answer").exists() and mark.with_suffix(".answer").read_text() != "")
    return mark.with_suffix(".answer").read_text()


async def test_request_of_a_cancelled_call_is_sent_to_no_other_client(tmp_path: Path) -> None:
    a, b, c = (tmp_path / each for each in "abc")
    async with two_clients() as (first, one, second, other, mount), trio.open_nursery() as nursery:
        await begun(nursery, first, "wait", a)
        (await begun(nursery, second, "wait_and_ask", b)).cancel()
        await trio.testing.wait_all_tasks_blocked()
        b.touch()
        assert "is ambiguous" in await answer(b)
        # From now on every request may belong to the cancelled call.
        await begun(nursery, first, "wait_and_ask", c)
        c.touch()
        assert "a call of another client was cancelled" in await answer(c)
        assert (one.asked, other.asked) == ([], [])

        mount.restart()
        await mount.until_listed()
        c.with_suffix(".answer").unlink()
        c.with_suffix(".began").unlink()
        await begun(nursery, first, "wait_and_ask", c)
        assert "blue" in await answer(c)
        nursery.cancel_scope.cancel()


async def test_request_is_sent_after_a_cancelled_call_of_the_same_client(tmp_path: Path) -> None:
    a, b = (tmp_path / each for each in "ab")
    async with two_clients() as (first, one, _, _, _), trio.open_nursery() as nursery:
        await begun(nursery, first, "wait", a)
        (await begun(nursery, first, "wait_and_ask", b)).cancel()
        await trio.testing.wait_all_tasks_blocked()
        b.touch()
        assert "blue" in await answer(b)
        assert one.asked == ["Whose?"]
        nursery.cancel_scope.cancel()


async def test_request_abandoned_by_its_server_is_sent_to_no_other_client(tmp_path: Path) -> None:
    a, b = (tmp_path / each for each in "ab")
    async with two_clients() as (first, one, second, other, _), trio.open_nursery() as nursery:
        await begun(nursery, first, "wait", a)
        await second.call_tool("up_ask_and_return", {"mark": str(b)})
        assert "is ambiguous" in await answer(b)
        assert (one.asked, other.asked) == ([], [])
        nursery.cancel_scope.cancel()
