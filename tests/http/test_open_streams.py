"""Open streams with few events: they need no worker task, and otherwise behave like every stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import httpx2
import trio
from attrs import define

from mcptrio import Server as Engine
from mcptrio.http.engine.limits import ConnectionLimits
from mcptrio.http.engine.server import serve_asgi as serve
from mcptrio.http.server.app import HTTPApp
from mcptrio.serving import HTTPLimits, ServerLimits, ServerSettings
from mcptrio.stores.memory import MemoryEventStore, MemorySessionStore

from .conftest import MODERN, Client, Events, modern_headers

__all__: list[str] = []

URI = "memo://" + "long" * 400
"""Many updates with this URI exceed the system's buffers of a client that does not read."""


@define
class Served:
    engine: Engine
    app: HTTPApp
    client: Client
    shutdown: trio.Event


@asynccontextmanager
async def served(
    limits: HTTPLimits | None = None,
    connection: ConnectionLimits | None = None,
    around: Callable[[HTTPApp], Any] | None = None,
) -> AsyncIterator[Served]:
    engine = Engine(settings=ServerSettings(limits=ServerLimits(subscriptions=500)))
    engine.add_resource(memo, "memo://{name}")
    async with AsyncExitStack() as stack:
        nursery = await stack.enter_async_context(trio.open_nursery())
        await stack.enter_async_context(engine.open())
        app = HTTPApp(engine.supervisor, sessions=MemorySessionStore(), events=MemoryEventStore(), limits=limits)
        await nursery.start(app.run)
        shutdown = trio.Event()
        asgi = app if around is None else around(app)
        (url,) = await nursery.start(
            partial(serve, asgi, bind="127.0.0.1:0", shutdown=shutdown, shutdown_timeout=0.5, limits=connection)
        )
        http = await stack.enter_async_context(httpx2.AsyncClient(base_url=url, timeout=60))
        yield Served(engine, app, Client(http, int(url.rpartition(":")[2])), shutdown)
        await until(lambda: engine.supervisor.in_flight == 0)
        assert app.exchanges == 0
        assert engine.status.sessions == ()
        assert not any(app._keepalives.idle.values())
        shutdown.set()
        nursery.cancel_scope.cancel()


async def memo(name: str) -> str:
    return name


async def until(true: Callable[[], bool]) -> None:
    with trio.fail_after(30):
        while not true():  # noqa: ASYNC110 - there is no event for it
            await trio.sleep(0.01)


@asynccontextmanager
async def listening(served: Served, *uris: str) -> AsyncIterator[Events]:
    """A stream whose subscription has been acknowledged."""
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "subscriptions/listen",
        "params": {
            "notifications": {"resourceSubscriptions": uris},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            },
        },
    }
    async with served.client.stream("POST", message, **modern_headers(message)) as events:
        if events.status == 200:
            first = await events.next()
            assert first is not None
            assert first["data"]["method"] == "notifications/subscriptions/acknowledged"
        yield events


def tasks() -> int:
    """All tasks of the run."""

    def below(task: trio.lowlevel.Task) -> int:
        return 1 + sum(below(child) for nursery in task.child_nurseries for child in nursery.child_tasks)

    root = trio.lowlevel.current_root_task()
    assert root is not None
    return below(root)


async def test_open_streams_need_no_worker_and_no_writer_task() -> None:
    async with served() as server, AsyncExitStack() as stack:
        # Workers that have begun streams wait for the next request.
        streams = [await stack.enter_async_context(listening(server, "memo://a"))]
        before = tasks()
        streams += [await stack.enter_async_context(listening(server, "memo://a")) for _ in range(10)]

        assert tasks() - before == 10  # the task that reads the connection
        assert server.engine.supervisor.in_flight == 11
        for _ in range(2):
            server.engine.notify_resource_updated("memo://a")
            for stream in streams:
                event = await stream.next()
                assert event is not None
                assert event["data"]["params"]["uri"] == "memo://a"


async def test_stream_is_removed_at_once_after_a_disconnect() -> None:
    async with served() as server, listening(server, "memo://a") as other:
        async with listening(server, "memo://a"):
            assert server.app.exchanges == 2
        await until(lambda: server.app.exchanges == 1)

        assert server.engine.supervisor.in_flight == 1
        server.engine.notify_resource_updated("memo://a")
        assert await other.next() is not None


async def test_open_streams_count_as_exchanges() -> None:
    async with served(HTTPLimits(streams=2)) as server, listening(server, "memo://a"):
        async with listening(server, "memo://a"), listening(server, "memo://a") as refused:
            assert refused.status == 503
        await until(lambda: server.app.exchanges == 1)
        async with listening(server, "memo://a") as accepted:
            assert accepted.status == 200


async def test_idle_stream_gets_repeated_keepalive_comments() -> None:
    async with served(HTTPLimits(keepalive_interval=0.05)) as server, listening(server, "memo://a") as events:
        with trio.fail_after(30):
            for turn in range(1, 3):
                while events.comments < turn:  # counted when they are read, before the data after them
                    await trio.sleep(0.1)
                    server.engine.notify_resource_updated("memo://a")
                    assert await events.next() is not None


async def test_client_that_does_not_read_is_disconnected_and_delays_no_other() -> None:
    uris = [f"{URI}{number}" for number in range(400)]
    async with (
        served(connection=ConnectionLimits(write_timeout=0.3)) as server,
        listening(server, *uris),
        listening(server, *uris) as reading,
    ):
        # One client must be disconnected; the other must receive every update.
        while server.engine.supervisor.in_flight == 2:
            for uri in uris:
                server.engine.notify_resource_updated(uri)
            got = [await reading.next() for _ in uris]
            assert [event["data"]["params"]["uri"] for event in got if event is not None] == uris


async def test_shutdown_ends_streams_with_a_result_and_a_complete_response() -> None:
    async with served() as server, listening(server, "memo://a") as events:
        await server.engine.supervisor.drain()
        last = await events.next()

        assert last is not None
        assert last["data"]["id"] == 1
        assert "result" in last["data"]
        assert await events.next() is None


async def test_wrapping_middleware_sees_everything_that_is_sent() -> None:
    """The ``send`` of a wrapping application is not bypassed."""
    sent: list[MutableMapping[str, Any]] = []

    def around(app: HTTPApp) -> Any:
        async def watched(scope: Any, receive: Any, send: Any) -> None:
            async def see(event: MutableMapping[str, Any]) -> None:
                sent.append(event)
                await send(event)

            await app(scope, receive, see)
            if scope["type"] == "http":
                sent.append({"type": "returned"})

        return watched

    async with served(around=around) as server:
        async with listening(server, "memo://a") as events:
            server.engine.notify_resource_updated("memo://a")
            assert await events.next() is not None
            bodies = b"".join(event.get("body", b"") for event in sent)
            assert b"acknowledged" in bodies
            assert b"resources/updated" in bodies
            assert {"type": "returned"} not in sent
        await until(lambda: {"type": "returned"} in sent)
