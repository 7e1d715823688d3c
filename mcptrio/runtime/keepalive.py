"""Keep-alive pings to a peer.

Source: MCP 2025-11-25, basic/utilities/ping.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from mcptrio.errors import ConnectionClosed, MCPError
from mcptrio.protocol.model.lifecycle import PingParams
from mcptrio.runtime.conversation import Conversation

__all__ = ["keep_alive"]

_log = logging.getLogger("mcptrio.session")


async def keep_alive(session: Conversation, end: Callable[[str], None]) -> None:
    """Ping the peer every ``ping_interval`` seconds; call ``end`` if it does not answer two pings in a row."""
    settings = session.settings
    missed = 0
    while not session.closing.is_set():
        with trio.move_on_after(settings.ping_interval):
            await session.closing.wait()
            return
        peer, sink = session.connection.peer, session.sink
        if peer is None or sink is None or peer.revision.client_methods.get("ping") is None:
            continue
        try:
            await session.outgoing.request("ping", PingParams(), peer=peer, sink=sink, timeout=settings.timeouts.ping)
            missed = 0
        except MCPError as error:
            # An error response counts as an answer.
            missed = 0
            _log.debug("%s: a ping was answered with an error: %s", session.name, error.message)
        except trio.TooSlowError:
            missed += 1
            _log.warning("%s: no answer to a ping within %g s", session.name, settings.timeouts.ping)
            # A single answer may be late on a busy machine.
            if missed == 2:
                end("the peer no longer answers pings")
        except ConnectionClosed:
            # That stream has ended; over HTTP the client may open another.
            continue
