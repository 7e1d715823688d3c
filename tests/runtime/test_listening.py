"""Subscriptions: the acknowledgement comes first, and a failing bus ends nothing."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing
from trio.testing import MockClock

from mcptrio import Context, Server
from mcptrio.abc import SessionRecord
from mcptrio.outbox import Outbox
from mcptrio.protocol.messages import Notification, Request, Response
from mcptrio.serving import ServerLimits, ServerSettings
from mcptrio.stores.memory import MemoryBus, memory_stores
from tests.runtime.peers import connected, envelope, tool

__all__: list[str] = []

_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def listen(id: Any, **wanted: Any) -> Request:
    return Request(id, "subscriptions/listen", {"notifications": wanted, "_meta": envelope()})


async def ok() -> str:
    return "ok"


async def test_acknowledgement_is_sent_before_changes_with_a_full_outbox(autojump_clock: MockClock) -> None:
    """A slow client gets the acknowledgement before any change."""

    async def flood(ctx: Context) -> str:
        for number in range(200):
            await ctx.notify("acme/flood", {"number": number})
        return "done"

    server = Server(settings=ServerSettings(limits=ServerLimits(outbox=2)))
    server.add_tool(flood)
    async with connected(server, revision=None) as client:
        await client.send(tool(1, "flood", modern=True))
        await trio.testing.wait_all_tasks_blocked()
        await client.send(listen(2, toolsListChanged=True))
        await trio.testing.wait_all_tasks_blocked()
        server.add_tool(ok)
        about: list[Notification] = []
        with trio.move_on_after(5):
            while True:
                message = await client.next()
                if isinstance(message, Notification) and message.method != "acme/flood":
                    about.append(message)
        server.remove_tool("ok")
        message = await client.next()
        assert isinstance(message, Notification)
        about.append(message)
        assert about[0].method == "notifications/subscriptions/acknowledged"
        assert about[-1].method == "notifications/tools/list_changed"
        assert all(m.params is not None and m.params["_meta"][_SUBSCRIPTION] == 2 for m in about)


async def test_changes_of_another_replica_are_notified_and_lost_ones_reported_as_all_changed(
    autojump_clock: MockClock,
) -> None:
    bus = MemoryBus()
    stores = memory_stores(bus=bus)
    servers = [Server(settings=ServerSettings(stores=stores)), Server(settings=ServerSettings(stores=stores))]
    servers[0].add_tool(ok, name="always")
    async with servers[1].open(), connected(servers[0], revision=None) as client:
        await client.send(listen(1, toolsListChanged=True, resourcesListChanged=True))
        assert isinstance(await client.next(), Notification)
        servers[1].add_tool(ok)
        message = await client.next()
        assert isinstance(message, Notification)
        assert message.method == "notifications/tools/list_changed"
        # A message of another version is ignored.
        for news in (b"no json", b"[]", b'{"list":["tools"]}', b'{"uri":5}'):
            bus.publish("changes", news)
        servers[1].remove_tool("ok")
        assert isinstance(await client.next(), Notification)

        bus.lose()
        message = await client.next()
        assert isinstance(message, Notification)
        assert message.method == "notifications/tools/list_changed"


async def test_client_that_may_have_missed_changes_gets_all_its_notifications(autojump_clock: MockClock) -> None:
    server = Server()
    server.add_tool(ok)
    record = SessionRecord(id="s", revision="2025-11-25", initialized=True, subscriptions=frozenset({"doc:///a"}))
    async with server.open():
        session = server.supervisor.open_session(record=record)
        outbox = Outbox()
        session.attach(outbox)

        session.report_everything_changed()

        sent = [(message.method, message.params) for message in await outbox.take()]
        assert ("notifications/tools/list_changed", None) in sent
        assert ("notifications/resources/updated", {"uri": "doc:///a"}) in sent
        assert not any("prompts" in method for method, _ in sent)
        session.end("the test is over")


async def test_listens_end_with_a_result_when_the_server_stops(autojump_clock: MockClock) -> None:
    server = Server()
    server.add_tool(ok)
    async with connected(server, revision=None) as client:
        await client.send(listen("x", toolsListChanged=True), listen("y"))
        assert [type(await client.next()) for _ in range(2)] == [Notification, Notification]
        await server.supervisor.drain()
        ends = [await client.next() for _ in range(2)]
        assert {end.id for end in ends if isinstance(end, Response)} == {"x", "y"}
        assert server.catalog.subscriptions._listens == set()
