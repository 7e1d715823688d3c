"""A message channel over a Trio channel of whatever carries JSON: texts, bytes, JSON values.

For transports of one's own: a web socket, a message queue, a serial link, another program's bus. Whoever can send and
receive one value at a time has a transport by this.
The one rule: what comes in is read as strictly as from any wire, whatever form it has, and shares nothing with what was
sent.

Source: MCP 2026-07-28, basic/transports, "Custom Transports".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import orjson
import trio

from mcptrio.abc import MessageChannel
from mcptrio.errors import ConnectionClosed
from mcptrio.ground.expected import expect
from mcptrio.protocol.jsonrpc import decode, encode
from mcptrio.protocol.limits import DEFAULT, MessageLimits
from mcptrio.protocol.messages import Incoming, Message

__all__ = ["AdaptedChannel", "adapt_channel"]

_MAKERS: Mapping[str, Callable[[bytes], Any]] = {"text": bytes.decode, "bytes": bytes, "json": orjson.loads}


def adapt_channel(
    channel: trio.abc.Channel[Any],
    *,
    form: Literal["text", "bytes", "json"] = "json",
    name: str = "channel",
    limits: MessageLimits = DEFAULT,
    write_timeout: float = 30.0,
) -> MessageChannel:
    """A channel of messages, to be served with ``running.serve(...)`` or connected to with ``connect(...)``.

    Args:
        channel: sends and receives one message, or one batch of them, at a time: ``EndOfChannel`` at the end,
            ``BrokenResourceError`` where it broke. It is owned from now on. Received may be any form, whatever is sent.
        form: of a message: its JSON as a text or as bytes; ``json``: the dict that the JSON stands for, or a list for
            a batch.
        name: for logs and the tree.
        limits: of one message.
        write_timeout: seconds that sending one message may take; then the peer counts as gone.
    """
    if form not in _MAKERS:
        raise ValueError(f"form: expected one of {', '.join(_MAKERS)}, got {form!r}")
    expect(channel, trio.abc.Channel, "adapt_channel: channel")
    expect(limits, MessageLimits, "adapt_channel: limits")
    return AdaptedChannel(channel, _MAKERS[form], name=name, limits=limits, write_timeout=write_timeout)


class AdaptedChannel:
    """Made by :func:`adapt_channel`."""

    def __init__(
        self,
        channel: trio.abc.Channel[Any],
        make: Callable[[bytes], Any],
        *,
        name: str,
        limits: MessageLimits,
        write_timeout: float,
    ) -> None:
        self.name = name
        self._channel = channel
        self._make = make
        self._limits = limits
        self._write_timeout = write_timeout

    async def receive(self) -> list[Incoming]:
        """What has arrived: one message, one batch, or why it is neither.

        Raises:
            trio.EndOfChannel: the peer has closed its side.
            ConnectionClosed: the channel broke, or was closed here.
            TypeError: what came is no text, no bytes and no JSON value; a mistake of who made the channel.
        """
        try:
            received = await self._channel.receive()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionClosed(f"{self.name}: {_said(error)}") from error
        return [decode(_bytes_of(received), self._limits)]

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        """Send them one after the other. Cancelled, the last ones are not sent.

        Raises:
            ConnectionClosed: the channel broke, was closed here, or took no message in time.
        """
        await trio.lowlevel.checkpoint()
        for message in messages:
            sent = False
            try:
                with trio.move_on_after(self._write_timeout):
                    await self._channel.send(self._make(encode(message)))
                    sent = True
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise ConnectionClosed(f"{self.name}: {_said(error)}") from error
            if not sent:
                raise ConnectionClosed(f"{self.name}: nothing was taken for {self._write_timeout:g} seconds")

    async def aclose(self) -> None:
        """Close the channel."""
        await self._channel.aclose()


def _bytes_of(received: object) -> bytes:
    if isinstance(received, str):
        # Half of a pair of surrogates is no character; as "?" it still is no JSON that anybody has written.
        return received.encode("utf-8", "replace")
    if isinstance(received, bytes | bytearray | memoryview):
        return bytes(received)
    try:
        return orjson.dumps(received)
    except TypeError as error:
        kind = type(received).__name__
        raise TypeError(f"expected a message as a text, as bytes or as a JSON value, got {kind}: {error}") from error


def _said(error: BaseException) -> str:
    if isinstance(error, trio.ClosedResourceError):
        return "the channel was closed"
    return f"the channel broke: {error}" if str(error) else "the channel broke"
