"""Streams that outlive their response: priming events, closing for resumption, Last-Event-ID, several replicas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio
from attrs import evolve

from mcptrio.abc import SessionRecord, session_topic
from mcptrio.errors import StoreFailed
from mcptrio.http.engine.limits import ConnectionLimits
from mcptrio.protocol.messages import Notification
from mcptrio.serving import HTTPLimits
from mcptrio.stores import open_stores
from mcptrio.stores.memory import MemoryBus, MemoryEventStore, MemorySessionStore
from mcptrio.stores.sqlite import open_sqlite_stores

from .conftest import Client, EchoSession, Server, Starter, call
from .web import eventually

FAST = HTTPLimits(stream_delay=0.02)


async def replicas(start: Starter, **options: Any) -> tuple[Server, Server, Client]:
    """Two servers over the same stores, and a client of the second one in the session of the first."""
    bus = MemoryBus()
    shared = {"sessions": MemorySessionStore(), "events": MemoryEventStore(bus=bus), "bus": bus, **options}
    one, two = await start(**shared), await start(**shared)
    await one.client.initialize()
    other = two.client
    other.session = one.client.session
    return one, two, other


async def wait_removed(server: Server, session: EchoSession) -> None:
    """Wait until the abandoned stream is removed."""
    with trio.fail_after(30):
        while session.sinks:
            await trio.sleep(0.01)
            await server.app._sessions._expire_idle()


async def test_slow_call_becomes_a_stream_with_a_priming_event(start: Starter) -> None:
    server = await start(limits=FAST)
    await server.client.initialize()
    async with server.client.stream("POST", call("slow")) as events:
        priming = await events.next()
        assert priming is not None
        assert priming["data"] is None
        assert priming["id"]
        assert events.retry == FAST.retry_delay * 1000
        server.engine.go.set()
        (answer,) = await events.rest()
        assert answer["data"]["result"] == {"slow": True}
        assert answer["id"] != priming["id"]


async def test_old_revision_gets_no_priming_event(start: Starter) -> None:
    """Older clients fail on an event without data."""
    server = await start(limits=HTTPLimits(stream_delay=0.01, keepalive_interval=0.05))
    await server.client.initialize("2025-06-18")
    async with server.client.stream("POST", call("slow")) as events:
        await trio.sleep(0.1)
        server.engine.go.set()
        (answer,) = await events.rest()
        assert answer["data"]["result"] == {"slow": True}


async def test_stream_closed_by_the_server_is_resumed(start: Starter) -> None:
    """SEP-1699: the server sends an id and ``retry``, closes the response, and keeps the result for Last-Event-ID."""
    server = await start()
    await server.client.initialize()
    async with server.client.stream("POST", call("release")) as events:
        priming = await events.next()
        assert priming is not None
        assert priming["data"] is None
        assert events.retry == 500
        assert await events.next() is None
    assert server.engine.in_flight == 1
    async with server.client.stream("GET", last_event_id=priming["id"]) as events:
        server.engine.go.set()
        (answer,) = await events.rest()
        assert answer["data"]["result"] == {"released": True}


async def test_server_closes_no_stream_in_revisions_without_priming_events(start: Starter) -> None:
    server = await start()
    await server.client.initialize("2025-03-26")
    server.engine.go.set()
    response = await server.client.post(call("release"))

    assert response.json()["result"] == {"released": False}


async def test_lost_response_is_replayed(start: Starter) -> None:
    server = await start(limits=FAST)
    await server.client.initialize()
    async with server.client.stream("POST", call("progress", {"steps": 3, "wait": True})) as events:
        seen = [await events.next() for _ in range(2)]
    server.engine.go.set()
    last = seen[-1]
    assert last is not None
    for _ in range(2):
        async with server.client.stream("GET", last_event_id=last["id"]) as events:
            replayed = [e["data"] for e in await events.rest()]
        assert [d.get("params", {}).get("progress") for d in replayed] == [1, 2, None]
        assert replayed[-1]["result"] == {"done": True}


async def test_resumption_ends_the_old_response_of_the_stream(start: Starter) -> None:
    server = await start(limits=FAST)
    await server.client.initialize()
    async with server.client.stream("POST", call("slow")) as old:
        priming = await old.next()
        assert priming is not None
        async with server.client.stream("GET", last_event_id=priming["id"]) as new:
            assert await old.next() is None
            server.engine.go.set()
            assert len(await new.rest()) == 1


async def test_stream_of_another_session_cannot_be_resumed(start: Starter) -> None:
    server = await start(limits=FAST)
    await server.client.initialize()
    async with server.client.stream("POST", call("slow")) as events:
        priming = await events.next()
    assert priming is not None
    await server.client.initialize()
    for id in (priming["id"], "nonsense", "p/0"):
        async with server.client.stream("GET", last_event_id=id) as events:
            assert events.status == 400
    server.engine.go.set()


async def test_get_stream_loses_nothing_between_two_connections(start: Starter) -> None:
    server = await start()
    await server.client.initialize()
    async with server.client.stream("GET") as events:
        priming = await events.next()
    assert priming is not None
    await trio.sleep(0.05)
    (session,) = server.engine.sessions
    await session.sinks[0].send(Notification("notifications/missed"))
    async with server.client.stream("GET", last_event_id=priming["id"]) as events:
        missed = await events.next()
        assert missed is not None
        assert missed["data"]["method"] == "notifications/missed"
        await session.sinks[0].send(Notification("notifications/live"))
        live = await events.next()
        assert live is not None
        assert live["data"]["method"] == "notifications/live"


async def test_get_stream_without_a_reader_stops_collecting_events(start: Starter) -> None:
    server = await start(limits=HTTPLimits(resume_timeout=0))
    await server.client.initialize()
    async with server.client.stream("GET") as events:
        priming = await events.next()
    assert priming is not None
    (session,) = server.engine.sessions
    await wait_removed(server, session)
    session.attached = trio.Event()
    async with server.client.stream("GET", last_event_id=priming["id"]) as events:
        # The old stream has ended; the response continues with a new one, which begins with its own id.
        await session.attached.wait()
        primed = await events.next()
        assert primed is not None
        assert primed["data"] is None
        assert primed["id"].split("/")[0] != priming["id"].split("/")[0]
        await session.sinks[0].send(Notification("notifications/new"))
        event = await events.next()
        assert event is not None
        assert event["data"]["method"] == "notifications/new"


async def test_resumption_of_an_earlier_stream_keeps_the_later_ones(start: Starter) -> None:
    """The response that continued with the later ones may not have reached the client."""
    server = await start(limits=HTTPLimits(resume_timeout=0))
    await server.client.initialize()
    async with server.client.stream("GET") as events:
        first = await events.next()
    assert first is not None
    (session,) = server.engine.sessions
    await session.sinks[0].send(Notification("notifications/first"))
    for _ in range(2):
        await wait_removed(server, session)
        session.attached = trio.Event()
        async with server.client.stream("GET", last_event_id=first["id"]):
            await session.attached.wait()
            await session.sinks[0].send(Notification("notifications/later"))
    async with server.client.stream("GET", last_event_id=first["id"]) as events:
        came: list[Any] = []
        while len(came) < 3:
            event = await events.next()
            assert event is not None
            if event["data"] is not None:
                came.append(event["data"]["method"])
        await session.sinks[0].send(Notification("notifications/now"))
        event = await events.next()
        while event is not None and event["data"] is None:
            event = await events.next()
        assert event is not None
        came.append(event["data"]["method"])

    assert came == [f"notifications/{name}" for name in ("first", "later", "later", "now")]


async def test_slow_reader_receives_more_events_than_the_store_keeps(start: Starter) -> None:
    """Backpressure: the writer waits for a reader that is slow but reads."""
    server = await start(events=MemoryEventStore(stream_events=50), limits=HTTPLimits(stream_delay=0.02, window=20))
    await server.client.initialize("2025-03-26")
    async with server.client.stream("POST", call("progress", {"steps": 3000})) as events:
        await trio.sleep(0.1)
        data = [e["data"] for e in await events.rest()]

    assert [d["params"]["progress"] for d in data[:-1]] == list(range(3000))


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_slow_reader_receives_more_bytes_than_the_store_keeps(start: Starter, tmp_path: Path, store: str) -> None:
    """A session may keep 16 MiB, which fewer large events than the window fill."""
    url = "memory" if store == "memory" else f"sqlite:{tmp_path / 'kept.db'}"
    async with open_stores(url) as stores:
        server = await start(events=stores.events, limits=HTTPLimits(stream_delay=0.02))
        await server.client.initialize()
        async with server.client.stream("POST", call("progress", {"steps": 400, "size": 100_000})) as events:
            await trio.sleep(0.3)
            data = [e["data"] for e in await events.rest() if e["data"] is not None]
        server.shutdown.set()

    assert [d["params"]["progress"] for d in data[:-1]] == list(range(400))


async def test_events_read_before_they_are_counted_do_not_block(start: Starter, tmp_path: Path) -> None:
    """In a slow store, an event can be read before its append returns."""
    async with open_sqlite_stores(tmp_path / "kept.db") as stores:
        server = await start(events=stores.events, limits=HTTPLimits(stream_delay=0.02, window=20))
        await server.client.initialize("2025-03-26")
        async with server.client.stream("POST", call("progress", {"steps": 1000})) as events:
            data = [e["data"] for e in await events.rest()]
        server.shutdown.set()

    assert [d["params"]["progress"] for d in data[:-1]] == list(range(1000))


async def test_call_continues_when_its_reader_stops(start: Starter) -> None:
    server = await start(connection=ConnectionLimits(write_timeout=0.1))
    await server.client.initialize()
    async with server.client.stream("POST", call("flood")):
        await trio.sleep(0.4)
        before = server.engine.sent
        await eventually(lambda: server.engine.sent > before)
        assert server.engine.in_flight == 1
        assert server.events._size <= 17 * 1024 * 1024
    await server.client.http.delete("/mcp", headers=server.client.headers())
    await eventually(lambda: server.engine.in_flight == 0)


async def test_any_replica_serves_a_session(start: Starter) -> None:
    _, two, client = await replicas(start)

    assert (await client.post(call("echo"))).json()["result"] == {"echo": {}}
    assert len(two.engine.sessions) == 1


async def test_answer_and_cancellation_reach_the_waiting_replica(start: Starter) -> None:
    one, _, other = await replicas(start)
    async with one.client.stream("POST", call("ask")) as events:
        question = await events.next()
        while question is not None and question["data"] is None:
            question = await events.next()
        assert question is not None
        reply = {"jsonrpc": "2.0", "id": question["data"]["id"], "result": {"from": "two"}}
        assert (await other.post(reply)).status_code == 202
        answer = await events.next()
        assert answer is not None
        assert answer["data"]["result"] == {"answer": {"from": "two"}}

    async def slow() -> None:
        assert (await one.client.post(call("slow", id="x"))).status_code == 202

    async with trio.open_nursery() as nursery:
        nursery.start_soon(slow)
        await one.engine.started.wait()
        params = {"requestId": "x"}
        await other.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
    assert len(one.engine.cancelled) == 1


async def test_stream_is_resumed_on_another_replica_while_it_runs(start: Starter) -> None:
    one, _, other = await replicas(start, limits=FAST)
    async with one.client.stream("POST", call("slow")) as events:
        priming = await events.next()
    assert priming is not None
    async with other.stream("GET", last_event_id=priming["id"]) as events:
        await trio.sleep(0.05)
        one.engine.go.set()
        (answer,) = await events.rest()
        assert answer["data"]["result"] == {"slow": True}


async def test_changes_between_two_get_streams_are_reported(start: Starter) -> None:
    """A replica that has ended cannot send them, and the next replica does not know them."""
    _, two, other = await replicas(start)
    events: MemoryEventStore = two.app._sessions.events
    await events.append(other.session, "gone", b"{}", will=b"")
    await events.settle(other.session, "gone")

    async with other.stream("GET", last_event_id="gone/0") as stream:
        primed = await stream.next()

        assert primed is not None
        assert primed["id"] != "gone/1"
        (session,) = two.engine.sessions
        assert session.reports == 1


async def test_first_get_stream_reports_no_missed_changes(start: Starter) -> None:
    server = await start()
    await server.client.initialize()

    async with server.client.stream("GET") as stream:
        await stream.next()

        (session,) = server.engine.sessions
        assert session.reports == 0


async def test_changed_record_reaches_the_other_replica(start: Starter) -> None:
    one, two, other = await replicas(start)
    await other.post(call("echo"))
    message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await other.post(message)).status_code == 202

    for server in (one, two):
        (session,) = server.engine.sessions
        await eventually(lambda session=session: session.record is not None and session.record.initialized)


class StalledStore(MemorySessionStore):
    """A store that fails while its engine is unreachable."""

    is_away = False

    async def load(self, id: str) -> SessionRecord | None:
        if self.is_away:
            raise StoreFailed("the engine does not answer")
        return await super().load(id)


async def test_record_that_cannot_be_read_is_read_later(start: Starter, caplog: pytest.LogCaptureFixture) -> None:
    store = StalledStore()
    _, two, other = await replicas(start, sessions=store)
    await other.post(call("echo"))
    store.is_away = True
    bus = two.app._sessions._replicas._bus
    assert bus is not None

    bus.publish(session_topic(other.session), b"record 99 another-replica")
    await eventually(lambda: "session lookup failed" in caplog.text)
    store.is_away = False

    assert (await other.post(call("echo"))).json()["result"] == {"echo": {}}
    assert "Traceback" not in caplog.text


async def test_end_of_a_session_reaches_every_replica(start: Starter) -> None:
    one, two, other = await replicas(start)
    await other.post(call("echo"))
    ends: list[Any] = []

    async def get() -> None:
        async with one.client.stream("GET") as events:
            ends.append((await events.rest())[1:])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(get)
        (session,) = one.engine.sessions
        await session.attached.wait()
        response: httpx2.Response = await other.http.delete("/mcp", headers=other.headers())
        assert response.status_code == 204

    assert ends == [[]]
    assert one.engine.sessions == two.engine.sessions == set()
    assert (await one.client.post(call("echo"))).status_code == 404


class CountingStore(MemorySessionStore):
    """A store that counts how often a record is read."""

    loads = 0

    async def load(self, id: str) -> SessionRecord | None:
        self.loads += 1
        return await super().load(id)


class DeafBus(MemoryBus):
    """A bus whose messages are lost."""

    def publish(self, topic: str, message: bytes) -> None:
        pass


async def test_replica_reads_a_record_once_for_several_requests(start: Starter) -> None:
    store = CountingStore()
    _, _, other = await replicas(start, sessions=store)
    await other.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
    await other.post(call("echo"))
    before, began = store.loads, trio.current_time()
    for _ in range(20):
        await other.post(call("echo"))

    # At most once in a tenth of a second.
    assert store.loads - before <= 2 + 10 * (trio.current_time() - began)


async def test_ended_session_is_refused_by_a_replica_that_was_not_notified(start: Starter) -> None:
    one, _, other = await replicas(start, bus=DeafBus())
    await other.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
    await other.post(call("echo"))
    await one.client.http.delete("/mcp", headers=one.client.headers())

    assert (await other.post(call("echo"))).status_code == 404


async def test_announced_end_is_not_undone_by_a_record_that_was_read_before(start: Starter) -> None:
    one, two, other = await replicas(start)
    await other.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
    await other.post(call("echo"))
    await one.client.http.delete("/mcp", headers=one.client.headers())

    assert (await other.post(call("echo"))).status_code == 404
    assert two.engine.sessions == set()


async def test_confirmed_log_level_applies_on_a_replica_that_was_not_notified(start: Starter) -> None:
    one, two, other = await replicas(start, bus=DeafBus())
    await other.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
    await other.post(call("echo"))
    (session,) = one.engine.sessions
    (there,) = two.engine.sessions
    assert session.record is not None
    session.record = evolve(session.record, log_level="warning")
    await one.client.post(call("echo"))
    await other.post(call("echo"))

    assert there.record is not None
    assert there.record.log_level == "warning"
