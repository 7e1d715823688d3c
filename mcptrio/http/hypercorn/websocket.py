"""A WebSocket of the hardened Hypercorn: its peer is told why it is closed, and is closed then.

Made by :mod:`mcptrio.http.hypercorn.http1` for a handshake that it has checked.
The one rule: after the first thing that is wrong nothing more is read.

Source: hypercorn 0.18 ``protocol/ws_stream.py``; RFC 6455 sections 5.5.1 and 7.1.7.
"""

from __future__ import annotations

from typing import Any

from hypercorn.protocol.events import Event, StreamClosed
from hypercorn.protocol.ws_stream import FrameTooLargeError, WSStream
from wsproto.connection import ConnectionState
from wsproto.events import CloseConnection, Message, Ping
from wsproto.frame_protocol import CloseReason

__all__ = ["WebSocket"]


class WebSocket(WSStream):
    """Takes what Hypercorn's takes."""

    app_put: Any  # Hypercorn's annotation has it optional; here it is there, since the handshake was good
    _code: int | None = None
    """Why it was closed."""

    async def handle(self, event: Event) -> None:
        if isinstance(event, StreamClosed) and self._code is not None and not self.closed:
            self.closed = True
            await self.app_put({"type": "websocket.disconnect", "code": self._code})
        else:
            await super().handle(event)

    async def _handle_events(self) -> None:
        for event in self.connection.events():
            if isinstance(event, Message):
                try:
                    self.buffer.extend(event)
                except FrameTooLargeError:
                    await self._end(CloseConnection(code=CloseReason.MESSAGE_TOO_BIG))
                    return
                if event.message_finished:
                    await self.app_put(self.buffer.to_message())
                    self.buffer.clear()
            elif isinstance(event, Ping):
                await self._send_wsproto_event(event.response())
            elif isinstance(event, CloseConnection):
                # Asked for by the peer, it is answered; otherwise it is wsproto's word for what cannot be read.
                asked = self.connection.state is not ConnectionState.OPEN
                await self._end(event.response() if asked else CloseConnection(code=event.code))
                return

    async def _end(self, event: CloseConnection) -> None:
        self._code = int(event.code or CloseReason.NO_STATUS_RCVD)
        await self._send_wsproto_event(event)
        await self.send(StreamClosed(stream_id=self.stream_id))
