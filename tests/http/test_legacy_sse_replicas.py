"""HTTP with SSE, the transport of 2024-11-05, on two servers with the same stores: a POST may reach either."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define, evolve, field

from mcptrio.abc import INBOX_MESSAGE, Principal, SessionRecord, Stores
from mcptrio.errors import AuthorizationError, StoreFailed
from mcptrio.serving import HTTPOptions, ServerLimits
from mcptrio.stores import StoreBounds
from mcptrio.stores.memory import MemoryBus, MemoryEventStore, MemorySessionStore, memory_stores
from mcptrio.stores.sqlite import open_sqlite_stores
from tests.error_codes import PARSE_ERROR
from tests.function_guard import FunctionGuard
from tests.interaction.client import Peer
from tests.interaction.wires import SSEWire

from .sse_site import PING, Site, call, greet, site, status
from .web import eventually

__all__: list[str] = []


@define(eq=False)
class RoutedWire(SSEWire):
    """A stream of one server, and POSTs that go to the servers in turn."""

    routes: list[int] = field(factory=list)
    _turns: Any = None

    async def post(
        self, data: bytes, *, to: str | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        self._turns = self._turns or cycle(self.routes)
        sent = {"host": "localhost", "content-type": "application/json", "content-length": str(len(data))}
        lines = [f"{name}: {value}" for name, value in {**sent, **self.headers, **(headers or {})}.items()]
        answered, _, body = await status(next(self._turns), f"POST {to or self.endpoint}", *lines, body=data)
        return answered, body


class QuietBus(MemoryBus):
    """A bus that can lose messages."""

    is_losing = False

    def publish(self, topic: str, message: bytes) -> None:
        if not (self.is_losing and message == INBOX_MESSAGE):
            super().publish(topic, message)


class FailingSessions(MemorySessionStore):
    """A store of sessions that fails while `is_failing` is set."""

    is_failing = False

    async def save(self, record: SessionRecord) -> SessionRecord | None:
        self._check()
        return await super().save(record)

    async def load(self, id: str) -> SessionRecord | None:
        self._check()
        return await super().load(id)

    def _check(self) -> None:
        if self.is_failing:
            raise StoreFailed("away")


class FailingEvents(MemoryEventStore):
    """A store of events that fails while `is_failing` is set."""

    is_failing = False

    async def put(self, session: str, message: bytes) -> None:
        self._check()
        await super().put(session, message)

    async def inbox(self, session: str, position: int) -> tuple[list[bytes], int]:
        self._check()
        return await super().inbox(session, position)

    def _check(self) -> None:
        if self.is_failing:
            raise StoreFailed("away")


@define(eq=False)
class TwoServers:
    """TwoServers servers. ``one`` has the streams."""

    one: Site
    two: Site

    @asynccontextmanager
    async def wire(self, *routes: Site, **options: Any) -> AsyncIterator[RoutedWire]:
        wire = RoutedWire(self.one.port, routes=[each.port for each in routes or (self.two,)], **options)
        try:
            await wire.open()
            yield wire
        finally:
            await wire.aclose()

    @asynccontextmanager
    async def peer(self, *routes: Site, revision: str = "2024-11-05", **options: Any) -> AsyncIterator[Peer]:
        async with self.wire(*routes, **options) as wire:
            peer = Peer(revision=revision, wire=wire, nursery=self.one.nursery)
            await self.one.nursery.start(peer.run)
            await peer.begin()
            yield peer


@asynccontextmanager
async def two(
    stores: Stores | None = None, options: HTTPOptions | None = None, **more: Any
) -> AsyncIterator[TwoServers]:
    stores = stores or memory_stores(bus=MemoryBus())
    async with site(options, stores=stores, **more) as one, site(options, stores=stores, **more) as other:
        yield TwoServers(one, other)


def cancellation(id: str) -> bytes:
    params = {"requestId": id}
    return json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).encode()


async def next_id(wire: SSEWire) -> Any:
    """Return the id of the next response."""
    while True:
        [message] = await wire.receive() or pytest.fail("the stream has ended")
        if "method" not in message:
            return message["id"]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25"])
async def test_messages_arrive_from_either_server(revision: str) -> None:
    async with two() as both, both.peer(both.one, both.two, revision=revision) as peer:
        for _ in range(10):
            assert await peer.text("whoami") == "nobody"
        assert len(both.one.server.status.sessions) == 1
        assert not both.two.server.status.sessions


async def test_messages_arrive_through_a_file(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    async with open_sqlite_stores(path) as first, open_sqlite_stores(path) as second:
        async with site(stores=first) as one, site(stores=second) as other:
            both = TwoServers(one, other)
            async with both.peer(one, other) as peer:
                for _ in range(4):
                    assert await peer.text("whoami") == "nobody"


async def test_each_message_is_run_once_and_after_those_that_were_acknowledged() -> None:
    """While the bus delivers nothing, the cancellation could overtake its request."""
    bus = QuietBus()
    async with two(memory_stores(bus=bus)) as both, both.wire(both.two, both.one) as wire:
        await greet(wire)
        bus.is_losing = True
        await wire.send(call("hold"))
        await wire.send(cancellation("hold"))

        await wire.send(PING)
        bus.is_losing = False
        await wire.send(PING)

        assert [await next_id(wire) for _ in range(2)] == [1, 1]
        await eventually(lambda: not both.one.server.status.in_flight)
        for number in range(20):
            await wire.send(PING.replace(b'"id":1', b'"id":%d' % number))
        assert [await next_id(wire) for _ in range(20)] == list(range(20))


async def test_unannounced_message_arrives_after_the_bus_reports_a_loss() -> None:
    bus = QuietBus()
    async with two(memory_stores(bus=bus)) as both, both.wire() as wire:
        await greet(wire)
        bus.is_losing = True
        await wire.send(PING)
        bus.lose()
        assert await next_id(wire) == 1


def authenticate(headers: Mapping[str, str]) -> Principal | None:
    """Tokens read ``person scope serial``."""
    if "authorization" not in headers:
        raise AuthorizationError("expected a token", challenge="Bearer")
    person, scope, serial = headers["authorization"].split()
    return Principal(subject=person, scopes=frozenset({scope}), claims={"jti": serial})


async def test_session_is_of_one_principal_on_every_server() -> None:
    options = HTTPOptions(auth=FunctionGuard(authenticate))
    async with two(options=options) as both, both.wire(headers={"authorization": "ann read 1"}) as wire:
        await greet(wire)
        other, body = await wire.post(PING, headers={"authorization": "bob read 1"})
        unknown, unknown_body = await wire.post(PING, to=f"/messages?session_id={'x' * 43}")
        more, _ = await wire.post(PING, headers={"authorization": "ann write 1"})
        refreshed, _ = await wire.post(PING, headers={"authorization": "ann read 2"})

        assert (other, body) == (unknown, unknown_body)
        assert (other, more, refreshed) == (404, 404, 202)
        assert await next_id(wire) == 1


async def test_invalid_message_is_refused_where_it_arrives() -> None:
    async with two() as both, both.peer() as peer:
        assert isinstance(peer.wire, SSEWire)
        refused, body = await peer.wire.post(b"{")

        assert refused == 400
        assert json.loads(body)["error"]["code"] == PARSE_ERROR
        assert await peer.text("whoami") == "nobody"


async def test_ended_session_has_ended_on_every_server_and_leaves_nothing() -> None:
    stores = memory_stores(bus=MemoryBus())
    async with two(stores) as both:
        async with both.peer() as peer:
            assert isinstance(peer.wire, SSEWire)
            endpoint = peer.wire.endpoint
            key = f"sse:{endpoint.partition('=')[2]}"
            assert await stores.sessions.load(key) is not None
        await eventually(lambda: not both.one.server.status.sessions)
        async with both.wire() as late:
            await eventually_refused(late, endpoint)

        assert await stores.sessions.load(key) is None
        assert await stores.events.inbox(key, 0) == ([], 0)


async def eventually_refused(wire: SSEWire, endpoint: str) -> None:
    with trio.fail_after(30):
        while (await wire.post(PING, to=endpoint))[0] != 404:  # noqa: ASYNC110 - only the response shows it
            await trio.sleep(0.01)


async def test_stream_ends_when_its_record_expires() -> None:
    sessions = MemorySessionStore(idle_timeout=0.3)
    stores = evolve(memory_stores(bus=MemoryBus()), sessions=sessions)
    async with two(stores) as both, both.wire() as wire:
        await greet(wire)
        await trio.sleep(0.5)
        # The other server deletes the expired session, which ends the stream here.
        await both.two.app._sessions._expire_idle()
        assert await wire.receive() is None


async def test_record_is_no_session_of_another_transport() -> None:
    async with two() as both, both.wire() as wire:
        await greet(wire)
        id = wire.endpoint.partition("=")[2]
        for given in (id, f"sse:{id}"):
            for each in (both.one, both.two):
                headers = ["host: localhost", "content-type: application/json", f"content-length: {len(PING)}"]
                headers += [f"mcp-session-id: {given}", "accept: application/json, text/event-stream"]
                assert (await status(each.port, "POST /mcp", *headers, body=PING))[0] == 404


async def test_messages_that_do_not_fit_end_the_stream() -> None:
    """While the client does not read, the session reads no messages either, and its inbox holds three."""
    stores = memory_stores(StoreBounds(stream_events=3), bus=MemoryBus())
    options = HTTPOptions(body_timeout=0.3)
    async with two(stores, options, limits=ServerLimits(outbox=2)) as both, both.wire() as wire:
        await greet(wire)
        await wire.send(call("hold"))
        await wire.send(call("talk"))
        async with both.wire(both.one) as direct:
            direct.endpoint, own = wire.endpoint, direct.endpoint
            while (await direct.post(PING))[0] == 202:
                pass
            direct.endpoint = own
        for _ in range(5):
            await wire.send(PING)
        with trio.fail_after(30):
            while await wire.receive() is not None:
                pass

        assert both.one.work.notes == ["cancelled"]
        await eventually_refused(wire, wire.endpoint)


# Stores that fail


async def test_nothing_happens_while_the_sessions_are_away() -> None:
    sessions = FailingSessions()
    stores = evolve(memory_stores(bus=MemoryBus()), sessions=sessions)
    async with two(stores) as both, both.wire() as wire:
        await greet(wire)
        sessions.is_failing = True
        refused, body = await wire.post(call("hold"))
        async with both.wire() as late:
            assert (late.status, late.head["retry-after"]) == (503, "5")
        sessions.is_failing = False
        await wire.send(PING)

        assert refused == 503
        assert json.loads(body)["error"]["data"]["retryAfter"] == 5.0
        assert await next_id(wire) == 1
        assert not both.one.work.begun.is_set()


async def test_message_waits_for_the_inbox_on_the_server_with_the_stream() -> None:
    """The server cannot read the inbox while the store fails, and earlier messages may be in it."""
    events = FailingEvents(bus=(bus := MemoryBus()))
    stores = evolve(memory_stores(bus=bus), events=events)
    async with two(stores) as both, both.wire(both.one) as wire:
        await greet(wire)
        events.is_failing = True
        refused, _ = await wire.post(call("hold"))
        events.is_failing = False
        await wire.send(PING)

        assert refused == 503
        assert await next_id(wire) == 1
        assert not both.one.work.begun.is_set()


async def test_message_whose_storage_failed_is_not_reported_as_refused() -> None:
    """503 would promise that the call has not run."""
    events = FailingEvents(bus=(bus := MemoryBus()))
    stores = evolve(memory_stores(bus=bus), events=events)
    async with two(stores) as both, both.wire() as wire:
        await greet(wire)
        events.is_failing = True
        uncertain, body = await wire.post(PING)
        events.is_failing = False

        assert uncertain == 504
        assert "not known" in json.loads(body)["error"]["message"]
        await wire.send(PING)
        assert await next_id(wire) == 1
