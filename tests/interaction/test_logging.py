"""Log messages: levels, the bridge from Python's logging, secrets, floods."""

from __future__ import annotations

import logging
from typing import Any

import trio
import trio.lowlevel

from mcptrio import Context, PluginSetup, hookimpl, tool
from mcptrio.serving import ServerLimits
from tests.error_codes import INVALID_PARAMS
from tests.interaction.applies import HANDSHAKE, MODERN, only, real_time
from tests.interaction.client import LOG_LEVEL, Peer
from tests.interaction.serving import Serve

MESSAGE = "notifications/message"
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]

log = logging.getLogger("author.plugin")


@tool
async def every_level(ctx: Context) -> str:
    """Log on every level."""
    for level in LEVELS:
        await ctx.log(level, f"at {level}", "mine")  # type: ignore[arg-type]
    return "logged"


@tool
async def plain(text: str) -> str:
    """Log as every Python program does."""
    log.warning("%s", text)
    return "logged"


@tool
async def children(ctx: Context) -> str:
    """Log from child tasks."""

    async def child(number: int) -> None:
        await trio.lowlevel.checkpoint()
        log.warning("child %d", number)

    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(child, number)
    return "logged"


@tool
def thread() -> str:
    """Log from a thread."""
    log.warning("from a thread")
    return "logged"


@tool
async def secrets(ctx: Context) -> str:
    """Log secrets."""
    await ctx.warning("Authorization: Bearer abcdefghijklmnop")
    await ctx.warning({"password": "hunter2", "deep": [{"api_key": "xyz123", "name": "ann"}]})
    log.warning("connecting to postgres://admin:hunter2@db/prod")
    return "logged"


@tool
async def flood(ctx: Context, count: int) -> str:
    """Log a lot."""
    for number in range(count):
        await ctx.info(f"message {number}")
    return "logged"


@tool
async def slowly(ctx: Context) -> str:
    """Log, wait, log."""
    await ctx.info("begun")
    await trio.sleep(0.02)
    await ctx.info("ended")
    return "logged"


def _texts(peer: Peer) -> list[Any]:
    return [note["data"] for note in peer.notes(MESSAGE)]


async def test_messages_below_the_level_are_not_sent(serve: Serve) -> None:
    peer = await serve(every_level)

    for position, level in enumerate(LEVELS):
        peer.received.clear()
        await peer.set_log_level(level)
        await peer.call("every_level")

        assert [note["level"] for note in peer.notes(MESSAGE)] == LEVELS[position:]
        assert {note["logger"] for note in peer.notes(MESSAGE)} == {"mine"}


@only(revisions=MODERN, because="sessions of handshake revisions start with a level of the server's")
async def test_nothing_is_logged_unless_the_request_sets_a_level(serve: Serve) -> None:
    peer = await serve(every_level, plain)

    await peer.call("every_level", meta={LOG_LEVEL: "error"})
    assert len(_texts(peer)) == 4
    peer.received.clear()
    await peer.call("every_level")
    await peer.call("plain", {"text": "hello"})

    assert _texts(peer) == []


@only(revisions=HANDSHAKE, because="2026-07-28 has no unsolicited messages")
async def test_session_starts_with_the_log_level_of_the_server(serve: Serve) -> None:
    peer = await serve(every_level, log_level="critical")

    await peer.call("every_level")

    assert [note["level"] for note in peer.notes(MESSAGE)] == ["critical", "alert", "emergency"]


@only(revisions=HANDSHAKE, because="2026-07-28 has no unsolicited messages")
async def test_server_without_a_level_sends_no_log_messages(serve: Serve) -> None:
    peer = await serve(every_level, log_level=None)

    await peer.call("every_level")

    assert _texts(peer) == []


async def test_unknown_level_is_refused(serve: Serve) -> None:
    peer = await serve(every_level)

    if peer.handshake:
        error = await peer.error("logging/setLevel", {"level": "loud"})
    else:
        error = await (await peer.start_call("every_level", meta={LOG_LEVEL: "loud"})).error()

    assert error["code"] == INVALID_PARAMS
    assert "loud" in error["message"]


async def test_python_log_records_are_sent_to_the_client_of_the_request(serve: Serve) -> None:
    peer = await serve(plain)
    await peer.set_log_level("info")

    await peer.call("plain", {"text": "hello"})

    (note,) = peer.notes(MESSAGE)
    assert note == {"level": "warning", "logger": "author.plugin", "data": "hello"}


async def test_child_tasks_log_for_their_request(serve: Serve) -> None:
    peer = await serve(children)
    await peer.set_log_level("info")

    await peer.call("children")

    assert sorted(_texts(peer)) == ["child 0", "child 1", "child 2"]


@real_time(because="a mock clock does not wait for threads")
async def test_threads_log_for_their_request(serve: Serve) -> None:
    peer = await serve(thread)
    await peer.set_log_level("info")

    await peer.call("thread")

    assert _texts(peer) == ["from a thread"]


async def test_log_messages_are_sent_to_the_client_of_the_request_only(serve: Serve) -> None:
    peer = await serve(plain, children)
    other = await serve.connect()
    for each in (peer, other):
        await each.set_log_level("debug")

    await peer.call("plain", {"text": "for the first"})
    await other.call("children")
    log.warning("for nobody")

    assert _texts(peer) == ["for the first"]
    assert sorted(_texts(other)) == ["child 0", "child 1", "child 2"]


async def test_log_records_of_the_server_are_not_sent_to_clients(serve: Serve) -> None:
    @tool
    async def fails() -> str:
        """Fail."""
        raise ValueError("hidden")

    peer = await serve(fails)
    await peer.set_log_level("debug")

    await peer.failure("fails")

    assert _texts(peer) == []


async def test_secrets_are_redacted(serve: Serve) -> None:
    peer = await serve(secrets)
    await peer.set_log_level("debug")

    await peer.call("secrets")

    sent = str(peer.received)
    for secret in ("abcdefghijklmnop", "hunter2", "xyz123"):
        assert secret not in sent
    assert _texts(peer)[1]["deep"][0]["name"] == "ann"


async def test_redaction_of_a_plugin_is_applied(serve: Serve) -> None:
    class Careful:
        """A plugin that redacts its own secrets."""

        @hookimpl
        def setup(self, server: PluginSetup) -> None:
            server.add_redaction(lambda text: text.replace("Ann", "[name]"))

    peer = await serve(plain, plugins=[Careful()])
    await peer.set_log_level("debug")

    await peer.call("plain", {"text": "Ann is here"})

    assert _texts(peer) == ["[name] is here"]


async def test_log_sink_of_a_plugin_receives_redacted_messages(serve: Serve) -> None:
    received: list[tuple[str, Any, str | None]] = []

    class Listener:
        """A plugin with a log sink, and with one that fails."""

        @hookimpl
        def setup(self, server: PluginSetup) -> None:
            server.add_log_sink(lambda level, data, logger: received.append((level, data, logger)))
            server.add_log_sink(lambda level, data, logger: 1 / 0)

    peer = await serve(every_level, secrets, plugins=[Listener()])

    await peer.call("every_level")
    await peer.call("secrets")

    assert [level for level, _, _ in received[:8]] == LEVELS
    assert "hunter2" not in str(received)


async def test_flood_of_messages_is_cut_and_a_later_message_reports_it(serve: Serve) -> None:
    peer = await serve(flood, limits=ServerLimits(logs_per_second=5))
    await peer.set_log_level("debug")

    await peer.call("flood", {"count": 100})
    sent = len(_texts(peer))
    await trio.sleep(0.3)
    await peer.call("flood", {"count": 1})

    if peer.handshake:
        assert 5 <= sent < 100
        # A slow flood is reported more than once.
        lost = [int(text.split()[0]) for text in _texts(peer) if "dropped" in text]
        assert lost
        assert sum(lost) + len(_texts(peer)) - len(lost) == 101
    else:
        assert sent < 100


async def test_log_messages_are_sent_on_the_stream_of_the_request(serve: Serve) -> None:
    peer = await serve(slowly, every_level)
    await peer.set_log_level("info")

    slow = await peer.start_call("slowly")
    await peer.call("every_level")
    await slow.result()

    if slow.exchange is not None:
        assert [m["params"]["data"] for m in slow.messages if m.get("method") == MESSAGE] == ["begun", "ended"]
    assert len(_texts(peer)) == 2 + 7
