"""Messages without a response, in both directions: logs and their level, roots, and custom notifications."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from mcptrio import ConfigError, connect
from mcptrio.client import Handlers
from mcptrio.client.log_limit import MAX_LOGS_PER_SECOND, MAX_LOGS_WHILE_CONNECTING
from mcptrio.serving import memory_channel_pair
from tests.client.scripted import Script, lives, play, text
from tests.interaction.applies import HANDSHAKE, MODERN, REVISIONS

__all__: list[str] = []

OLD, NEW = HANDSHAKE[-1], MODERN[-1]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_log_messages_are_handed_on(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Any] = []

    def hear(message: Any) -> None:
        heard.append((message.level, message.logger, message.data))
        if message.level == "error":
            raise KeyError("mine")

    async with play(revision, handlers=Handlers(log=hear)) as (client, script):
        await script.tell("notifications/message", {"level": "info", "logger": "l", "data": {"a": 1}})
        await script.tell("notifications/message", {"level": "error", "data": None})
        await script.tell("notifications/message", {"level": "loud", "data": 1})
        await script.tell("notifications/message", {"level": "debug", "data": "x"})
        assert await lives(client, script)
    assert heard == [("info", "l", {"a": 1}), ("error", None, None), ("debug", None, "x")]
    assert "the handler of log messages failed" in caplog.text


async def test_log_messages_without_end_are_dropped_past_the_limit(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Over the whole of connecting, and a second afterwards; the log says so once a minute."""
    heard: list[Any] = []
    ours, theirs = memory_channel_pair()
    script = Script(theirs, OLD)

    async def flood() -> None:
        for number in range(3000):
            await script.tell("notifications/message", {"level": "info", "data": number})

    async def serve() -> None:
        await flood()
        await script.begin({"tools": {}})
        begun.set()

    begun = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        async with connect(ours, revision=OLD, handlers=Handlers(log=heard.append), ping_interval=0) as client:
            await begun.wait()
            assert len(heard) == MAX_LOGS_WHILE_CONNECTING
            await flood()
            assert await lives(client, script)
            assert len(heard) == MAX_LOGS_WHILE_CONNECTING + MAX_LOGS_PER_SECOND
            await trio.sleep(1)
            await flood()
            assert await lives(client, script)
            assert len(heard) == MAX_LOGS_WHILE_CONNECTING + 2 * MAX_LOGS_PER_SECOND
    await theirs.aclose()
    notices = [record.message for record in caplog.records if "dropped" in record.message]
    assert notices == ["memory: sends more than 100 log messages while connecting; dropped: 1"]


async def test_level_is_asked_for_once_on_a_session() -> None:
    async with play(OLD, log_level=None) as (client, script), trio.open_nursery() as nursery:
        nursery.start_soon(client.set_log_level, "warning")
        request = await script.asked("logging/setLevel")
        assert request.params == {"level": "warning"}
        await script.answer(request)


async def test_level_goes_with_every_long_request_where_nothing_is_remembered() -> None:
    key = "io.modelcontextprotocol/logLevel"
    async with play(NEW, log_level="warning") as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            for level in ("warning", "debug"):
                request = await script.asked("tools/call")
                assert request.params is not None
                assert request.params["_meta"][key] == level
                await script.answer(request, text("done"))
            listing = await script.asked("tools/list")
            assert listing.params is not None
            assert key not in listing.params["_meta"]
            await script.answer(listing, {"tools": []})

        nursery.start_soon(serve)
        await client.call_tool("work")
        await client.set_log_level("debug")
        await client.call_tool("work")
        await client.tools().all()


async def test_level_that_is_none_is_a_wrong_option() -> None:
    with pytest.raises(ConfigError, match="log_level: expected one of debug"):
        async with connect("https://example.com", log_level="loud"):  # type: ignore[arg-type]
            pass


@pytest.mark.parametrize("revision", REVISIONS)
async def test_notifications_beyond_the_specification_are_handed_on(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Any] = []

    def hear(method: str, params: dict[str, Any]) -> None:
        heard.append((method, params))
        raise KeyError("mine")

    async with play(revision, handlers=Handlers(notification=hear)) as (client, script):
        await script.tell("notifications/example.com/tick", {"n": 1})
        await script.tell("tock")
        await script.tell("notifications/tools/list_changed")
        assert await lives(client, script)
        await client.notify("notifications/example.com/tack", {"n": 2})
        told = await script.told("notifications/example.com/tack")
        assert (told.params or {})["n"] == 2
    assert heard == [("notifications/example.com/tick", {"n": 1}), ("tock", {})]
    assert "the handler of notifications failed" in caplog.text


@pytest.mark.parametrize("revision", REVISIONS)
async def test_roots_changed_is_sent_in_revisions_that_have_it(revision: str) -> None:
    async with play(revision, handlers=Handlers(roots=[])) as (client, script):
        await client.roots_changed()
        if revision in HANDSHAKE:
            await script.told("notifications/roots/list_changed")
        await script.silent()


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("is_cancelled", [False, True], ids=["left", "cancelled"])
async def test_messages_before_closing_arrive(revision: str, is_cancelled: bool) -> None:
    ours, theirs = memory_channel_pair()
    script = Script(theirs, revision)
    async with trio.open_nursery() as nursery:

        async def serve() -> None:
            await script.begin({})
            await script.told("notifications/example.com/goodbye")

        nursery.start_soon(serve)
        with trio.CancelScope() as scope:
            async with connect(ours, revision=revision) as client:
                await client.notify("notifications/example.com/goodbye")
                if is_cancelled:
                    scope.cancel()
                    await trio.lowlevel.checkpoint()
