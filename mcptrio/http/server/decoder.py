"""Decodes messages from HTTP and WebSocket clients, with a share of the event loop for each client.

The HTTP endpoint, the legacy SSE endpoint and the WebSocket channel use it. Decoding a message of 4 MiB takes up to
40 ms, in which no other client is served. The decoder therefore measures the time that the large messages of each
client take. A client that has used its share must wait.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import trio

from mcptrio.errors import RateLimited
from mcptrio.http.server.owner_rates import OwnerRates
from mcptrio.protocol.jsonrpc import decode
from mcptrio.protocol.limits import MessageLimits
from mcptrio.protocol.messages import Incoming

__all__ = ["MAX_UNCOUNTED_BYTES", "MessageDecoder"]

MAX_UNCOUNTED_BYTES: Final = 4096
"""Bytes of a message that is not counted. Decoding it takes less than 0.5 ms."""
_WINDOW_SECONDS: Final = 60.0
"""Seconds whose share a client may use at once."""


class MessageDecoder:
    """Decodes messages, and limits the time that large messages of one client take.

    Args:
        limits: The limits of one message.
        share: The share of the event loop's time, 0 to 1, that decoding one client's large messages may take on
            average; 0 for no limit.
        max_owners: The number of clients that are remembered.
    """

    def __init__(self, limits: MessageLimits, share: float, max_owners: int) -> None:
        self.limits = limits
        self._seconds = OwnerRates(share, share * _WINDOW_SECONDS, max_owners)

    def decode(self, data: bytes, owner: Hashable) -> Incoming:
        """Return the message; see :func:`mcptrio.protocol.jsonrpc.decode`.

        Raises:
            RateLimited: The message is large, and the client has used its share.
        """
        if len(data) > MAX_UNCOUNTED_BYTES and (wait := self.wait(owner)):
            raise RateLimited("too many large messages from this client", retry_after=wait)
        return self.decode_now(data, owner)

    def decode_now(self, data: bytes, owner: Hashable) -> Incoming:
        """Return the message, for a caller that waits before it decodes the next one."""
        if len(data) <= MAX_UNCOUNTED_BYTES:
            # A small message is not timed, because reading the clock twice would cost too much compared with decoding
            # it.
            return decode(data, self.limits, owner=owner)
        begun = trio.current_time()
        incoming = decode(data, self.limits, owner=owner)
        self._seconds.spend(owner, trio.current_time() - begun)
        return incoming

    def wait(self, owner: Hashable) -> float:
        """Return the seconds until the client may send the next large message."""
        # With cost 0, nothing is spent. The cost is known after decoding, and decode_now() spends it.
        return self._seconds.wait(owner, 0.0) or 0.0
