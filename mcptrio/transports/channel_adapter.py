"""Turns any Trio channel that carries JSON (strings, bytes or JSON values) into a message channel.

With it, programs can use a web socket, a message queue, a serial link or another program's bus as a transport, if it
sends and receives one value at a time. Received values are validated as strictly as bytes from a network, and share no
objects with the sender.

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
"""Functions that convert an encoded message to a form."""


def adapt_channel(
    channel: trio.abc.Channel[Any],
    *,
    form: Literal["text", "bytes", "json"] = "json",
    name: str = "channel",
    limits: MessageLimits = DEFAULT,
    write_timeout: float = 30.0,
) -> MessageChannel:
    """Return a message channel for ``running.serve(...)`` or ``connect(...)``.

    Args:
        channel: Sends and receives one message or batch at a time. It must raise ``EndOfChannel`` at its end and
            ``BrokenResourceError`` if it breaks. The message channel owns it. Received values may have any of the
            forms, whatever ``form`` is.
        form: The form of sent messages: ``"text"`` for JSON as a string, ``"bytes"`` for JSON as bytes, ``"json"`` for
            a dict, or a list for a batch.
        name: Name for logs and status displays.
        limits: Limits of one message.
        write_timeout: Seconds for sending one message; then the peer is considered disconnected.
    """
    if form not in _MAKERS:
        raise ValueError(f"form: expected one of {', '.join(_MAKERS)}, got {form!r}")
    expect(channel, trio.abc.Channel, "adapt_channel: channel")
    expect(limits, MessageLimits, "adapt_channel: limits")
    return AdaptedChannel(channel, _MAKERS[form], name=name, limits=limits, write_timeout=write_timeout)


class AdaptedChannel:
    """A :class:`mcptrio.abc.MessageChannel` over a Trio channel. Made by :func:`adapt_channel`."""

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
        """Receive one message, one batch, or a Malformed item with the reason why it is neither.

        Raises:
            trio.EndOfChannel: The peer has closed its side.
            ConnectionClosed: The channel broke, or was closed here.
            TypeError: The channel returned a value that is not a string, bytes or a JSON value, which is a mistake of
                its author.
        """
        try:
            received = await self._channel.receive()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionClosed(f"{self.name}: {_describe(error)}") from error
        return [decode(_bytes_of(received), self._limits)]

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        """Send the messages one after the other. If this is cancelled, the remaining ones are not sent."""
        await trio.lowlevel.checkpoint()
        for message in messages:
            sent = False
            try:
                with trio.move_on_after(self._write_timeout):
                    await self._channel.send(self._make(encode(message)))
                    sent = True
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise ConnectionClosed(f"{self.name}: {_describe(error)}") from error
            if not sent:
                raise ConnectionClosed(f"{self.name}: no message was accepted for {self._write_timeout:g} seconds")

    async def aclose(self) -> None:
        await self._channel.aclose()


def _bytes_of(received: object) -> bytes:
    if isinstance(received, str):
        # A lone surrogate cannot be encoded. "?" in its place cannot make invalid JSON valid.
        return received.encode("utf-8", "replace")
    if isinstance(received, bytes | bytearray | memoryview):
        return bytes(received)
    try:
        # A JSON value is encoded and decoded again, so that limits and checks are the same as for bytes.
        return orjson.dumps(received)
    except TypeError as error:
        kind = type(received).__name__
        raise TypeError(f"expected a message as a text, as bytes or as a JSON value, got {kind}: {error}") from error


def _describe(error: BaseException) -> str:
    if isinstance(error, trio.ClosedResourceError):
        return "the channel was closed"
    return f"the channel broke: {error}" if str(error) else "the channel broke"
