"""Any object that sends and receives one value at a time is a transport: for servers and clients."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import trio
import trio.testing

from mcptrio import ConfigError, ConnectionClosed, Server, connect
from mcptrio.abc import MessageChannel
from mcptrio.protocol.messages import Batch, Malformed, Notification, Request, Response
from mcptrio.serving import MessageLimits, adapt_channel

__all__: list[str] = []

every_form = pytest.mark.parametrize("form", ["json", "text", "bytes"])


class End(trio.abc.Channel[Any]):
    """One end of two memory channels, which carry any value."""

    def __init__(self, sends: trio.MemorySendChannel[Any], receives: trio.MemoryReceiveChannel[Any]) -> None:
        self._sends = sends
        self._receives = receives

    async def send(self, value: Any) -> None:
        await self._sends.send(value)

    async def receive(self) -> Any:
        return await self._receives.receive()

    async def aclose(self) -> None:
        await self._sends.aclose()
        await self._receives.aclose()


def pair(room: int = 0) -> tuple[End, End]:
    to_right, from_left = trio.open_memory_channel[Any](room)
    to_left, from_right = trio.open_memory_channel[Any](room)
    return End(to_right, from_right), End(to_left, from_left)


@every_form
async def test_server_and_client_connect_over_an_adapted_channel(
    form: Literal["text", "bytes", "json"], autojump_clock: trio.abc.Clock
) -> None:
    async def shout(text: str) -> str:
        return text.upper()

    for revision in ("2025-11-25", "2026-07-28"):
        server = Server("adapted")
        server.add_tool(shout)
        ours, theirs = pair()
        async with server.open() as running, trio.open_nursery() as nursery:
            nursery.start_soon(running.serve, adapt_channel(theirs, form=form))
            async with connect(adapt_channel(ours, form=form), revision=revision) as client:
                result = await client.call_tool("shout", {"text": "hey"})
        assert [block.text for block in result.content] == ["HEY"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("form", "sent"),
    [
        ("json", {"jsonrpc": "2.0", "method": "a"}),
        ("text", '{"jsonrpc":"2.0","method":"a"}'),
        ("bytes", b'{"jsonrpc":"2.0","method":"a"}'),
    ],
)
async def test_messages_are_sent_in_the_configured_form(form: Literal["text", "bytes", "json"], sent: object) -> None:
    ours, theirs = pair(2)
    channel: MessageChannel = adapt_channel(ours, form=form, name="pigeon")
    assert channel.name == "pigeon"
    await channel.send([Notification("a"), [Notification("a"), Notification("a")]])

    assert await theirs.receive() == sent
    batch = await theirs.receive()
    assert batch == [sent, sent] if form == "json" else len(batch) == 2 * len(sent) + 3  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "received",
    [
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        '{"jsonrpc": "2.0", "id": 1, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}',
        bytearray(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'),
    ],
    ids=["json", "text", "bytes", "bytearray"],
)
async def test_messages_in_any_form_are_received(received: object) -> None:
    ours, theirs = pair(1)
    await theirs.send(received)

    assert await adapt_channel(ours, form="text").receive() == [Request(1, "ping")]


async def test_batch_is_received() -> None:
    ours, theirs = pair(1)
    await theirs.send([{"jsonrpc": "2.0", "method": "a"}])

    assert await adapt_channel(ours).receive() == [Batch((Notification("a"),))]


async def test_received_messages_share_nothing_with_the_sender() -> None:
    ours, theirs = pair(1)
    params = {"list": [1]}
    await theirs.send({"jsonrpc": "2.0", "method": "a", "params": params})
    (received,) = await adapt_channel(ours).receive()
    params["list"].append(2)

    assert received == Notification("a", {"list": [1]})


@pytest.mark.parametrize("received", ["rubbish", "\ud800", b"\xff", 17, None, {}, "x" * 200, {"a": [[[[[[]]]]]]}])
async def test_invalid_message_is_reported(received: object) -> None:
    ours, theirs = pair(1)
    await theirs.send(received)

    (notification,) = await adapt_channel(ours, limits=MessageLimits(bytes=100, depth=4)).receive()
    assert isinstance(notification, Malformed)


async def test_error_of_the_adapted_channel_is_reported() -> None:
    ours, theirs = pair(1)
    await theirs.send(object())

    with pytest.raises(TypeError, match="expected a message as a text, as bytes or as a JSON value, got object"):
        await adapt_channel(ours).receive()


async def test_end_of_the_adapted_channel_ends_the_connection() -> None:
    ours, theirs = pair(1)
    channel = adapt_channel(ours)
    await theirs.aclose()
    with pytest.raises(trio.EndOfChannel):
        await channel.receive()
    with pytest.raises(ConnectionClosed, match="channel: the channel broke"):
        await channel.send([Response(1, {})])

    await channel.aclose()
    with pytest.raises(ConnectionClosed, match="channel: the channel was closed"):
        await channel.receive()
    with pytest.raises(ConnectionClosed, match="channel: the channel was closed"):
        await channel.send([Response(1, {})])


async def test_peer_accepting_no_message_closes_the_connection(autojump_clock: trio.abc.Clock) -> None:
    ours, _theirs = pair()

    with pytest.raises(ConnectionClosed, match="no message was accepted for 30 seconds"):
        await adapt_channel(ours).send([Notification("a")])
    assert trio.current_time() == 30


def test_invalid_message_form_is_refused() -> None:
    ours, _ = pair()
    with pytest.raises(ValueError, match="form: expected one of text, bytes, json, got 'xml'"):
        adapt_channel(ours, form="xml")  # type: ignore[arg-type]


@pytest.mark.parametrize("target", [pair()[0], trio.testing.memory_stream_pair()[0]], ids=["channel", "stream"])
async def test_raw_channel_or_stream_is_refused_as_a_target(target: Any) -> None:
    with pytest.raises(ConfigError, match=r"expected a URL, .* or a channel, got (End|StapledStream) .*adapt_channel"):
        async with connect(target):
            raise AssertionError("connected")
