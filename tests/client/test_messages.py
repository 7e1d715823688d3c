"""Messages without a response, in both directions: logs and their level, roots, and custom notifications."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from mcptrio import ConfigError, connect
from mcptrio.client import Handlers
from mcptrio.client.log_limit import MAX_LOGS_PER_SECOND, MAX_LOGS_WHILE_CONNECTING
from mcptrio.serving import memory_channel_pair
from tests.client.scripted import Script, is_usable, play, text
from tests.interaction.applies import HANDSHAKE, MODERN, REVISIONS

__all__: list[str] = []

OLD, NEW = HANDSHAKE[-1], MODERN[-1]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_log_messages_reach_their_handler(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    received: list[Any] = []

    def hear(message: Any) -> None:
        received.append((message.level, message.logger, message.data))
        if message.level == "error":
            raise KeyError("mine")

    async with play(revision, handlers=Handlers(log=hear)) as (client, script):
        await script.notify("notifications/message", {"level": "info", "logger": "l", "data": {"a": 1}})
        await script.notify("notifications/message", {"level": "error", "data": None})
        await script.notify("notifications/message", {"level": "loud", "data": 1})
        await script.notify("notifications/message", {"level": "debug", "data": "x"})
        assert await is_usable(client, script)
    assert received == [("info", "l", {"a": 1}), ("error", None, None), ("debug", None, "x")]
    assert "the handler of log messages failed" in caplog.text


async def test_log_messages_over_the_rate_limit_are_dropped(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    """The limit applies while the client connects and in the second after; a warning is logged once a minute."""
    received: list[Any] = []
    ours, theirs = memory_channel_pair()
    script = Script(theirs, OLD)

    async def flood() -> None:
        for number in range(3000):
            await script.notify("notifications/message", {"level": "info", "data": number})

    async def serve() -> None:
        await flood()
        await script.begin({"tools": {}})
        started.set()

    started = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        async with connect(ours, revision=OLD, handlers=Handlers(log=received.append), ping_interval=0) as client:
            await started.wait()
            assert len(received) == MAX_LOGS_WHILE_CONNECTING
            await flood()
            assert await is_usable(client, script)
            assert len(received) == MAX_LOGS_WHILE_CONNECTING + MAX_LOGS_PER_SECOND
            await trio.sleep(1)
            await flood()
            assert await is_usable(client, script)
            assert len(received) == MAX_LOGS_WHILE_CONNECTING + 2 * MAX_LOGS_PER_SECOND
    await theirs.aclose()
    notices = [record.message for record in caplog.records if "dropped" in record.message]
    assert notices == ["memory: sends more than 100 log messages while connecting; dropped: 1"]


async def test_log_level_is_requested_once_a_session() -> None:
    async with play(OLD, log_level=None) as (client, script), trio.open_nursery() as nursery:
        nursery.start_soon(client.set_log_level, "warning")
        request = await script.next_request("logging/setLevel")
        assert request.params == {"level": "warning"}
        await script.answer(request)


async def test_log_level_is_sent_with_each_request_without_sessions() -> None:
    key = "io.modelcontextprotocol/logLevel"
    async with play(NEW, log_level="warning") as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            for level in ("warning", "debug"):
                request = await script.next_request("tools/call")
                assert request.params is not None
                assert request.params["_meta"][key] == level
                await script.answer(request, text("done"))
            listing = await script.next_request("tools/list")
            assert listing.params is not None
            assert key not in listing.params["_meta"]
            await script.answer(listing, {"tools": []})

        nursery.start_soon(serve)
        await client.call_tool("work")
        await client.set_log_level("debug")
        await client.call_tool("work")
        await client.tools().all()


async def test_unknown_log_level_is_refused() -> None:
    with pytest.raises(ConfigError, match="log_level: expected one of debug"):
        async with connect("https://example.com", log_level="loud"):  # type: ignore[arg-type]
            pass


@pytest.mark.parametrize("revision", REVISIONS)
async def test_custom_notifications_reach_their_handler(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Any] = []

    def hear(method: str, params: dict[str, Any]) -> None:
        heard.append((method, params))
        raise KeyError("mine")

    async with play(revision, handlers=Handlers(notification=hear)) as (client, script):
        await script.notify("notifications/example.com/tick", {"n": 1})
        await script.notify("tock")
        await script.notify("notifications/tools/list_changed")
        assert await is_usable(client, script)
        await client.notify("notifications/example.com/tack", {"n": 2})
        received = await script.next_notification("notifications/example.com/tack")
        assert (received.params or {})["n"] == 2
    assert heard == [("notifications/example.com/tick", {"n": 1}), ("tock", {})]
    assert "the handler of notifications failed" in caplog.text


@pytest.mark.parametrize("revision", REVISIONS)
async def test_roots_changed_is_sent_in_revisions_that_have_it(revision: str) -> None:
    async with play(revision, handlers=Handlers(roots=[])) as (client, script):
        await client.roots_changed()
        if revision in HANDSHAKE:
            await script.next_notification("notifications/roots/list_changed")
        await script.expect_nothing()


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("is_cancelled", [False, True], ids=["left", "cancelled"])
async def test_messages_before_closing_are_delivered(revision: str, is_cancelled: bool) -> None:
    ours, theirs = memory_channel_pair()
    script = Script(theirs, revision)
    async with trio.open_nursery() as nursery:

        async def serve() -> None:
            await script.begin({})
            await script.next_notification("notifications/example.com/goodbye")

        nursery.start_soon(serve)
        with trio.CancelScope() as scope:
            async with connect(ours, revision=revision) as client:
                await client.notify("notifications/example.com/goodbye")
                if is_cancelled:
                    scope.cancel()
                    await trio.lowlevel.checkpoint()
