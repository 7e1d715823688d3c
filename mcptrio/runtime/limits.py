"""The limits of one server: sessions, requests, streams, parked handlers.

The supervisor and its sessions read them. Beyond a limit, a request is refused with an error that names it.
"""

from __future__ import annotations

from typing import Final

from attrs import field, frozen

from mcptrio.ground.expected import PROGRAM_ONLY, integer, number
from mcptrio.protocol.limits import MAX_QUEUED_BYTES

__all__ = ["ServerLimits"]

_COUNT: Final = integer(1)


@frozen(kw_only=True)
class ServerLimits:
    """Limits of one server process.

    Args:
        sessions: Handshake sessions with a local part in this process.
        requests: Requests in flight in this process.
        requests_per_session: Requests in flight in one session (one stdio process is one session). As many
            notifications may wait for plugins; further ones are dropped.
        held_bytes: Bytes of memory for the parameters of all running requests, estimated from their JSON. One client
            may use at most as much as is free, so at most half.
        listen_streams: Open ``subscriptions/listen`` requests.
        subscriptions: URIs one session or one listen request may subscribe to.
        tasks: Tasks that run in this process; further ones are queued in the store.
        parked: Handlers that wait for a client's answer between two requests. Beyond this, the caller with the most of
            them loses the oldest one, and its retry is replayed. With 0, every retry is replayed.
        state_bytes: Length of a sealed ``requestState``.
        outbox: Messages queued for one peer. Beyond this, senders wait.
        outbox_bytes: Bytes of JSON queued for one peer. Beyond this, senders wait.
        threads: Concurrent sync functions of one plugin, and as many threads that its functions start. Clients take
            turns, and a client over HTTP may use at most as many threads as are free, so about half.
        result_text: Characters of text in one result of a tool, about four for a token. A longer text is cut, and a
            note at its end says so. Structured content, and results of mounted servers, are not cut.
        logs_per_second: Log messages to one session; further ones are dropped, and a later message has their number.
    """

    sessions: int = field(default=10_000, validator=_COUNT)
    requests: int = field(default=10_000, validator=_COUNT)
    requests_per_session: int = field(default=1_000, validator=_COUNT)
    held_bytes: int = field(default=256 * 1024 * 1024, validator=_COUNT)
    listen_streams: int = field(default=10_000, validator=_COUNT, metadata=PROGRAM_ONLY)
    subscriptions: int = field(default=1_000, validator=_COUNT)
    tasks: int = field(default=1_000, validator=_COUNT)
    parked: int = field(default=1_000, validator=integer(0))
    state_bytes: int = field(default=64 * 1024, validator=_COUNT, metadata=PROGRAM_ONLY)
    outbox: int = field(default=1_000, validator=_COUNT, metadata=PROGRAM_ONLY)
    outbox_bytes: int = field(default=MAX_QUEUED_BYTES, validator=_COUNT)
    threads: int = field(default=40, validator=_COUNT)
    result_text: int = field(default=40_000, validator=integer(1_000))
    logs_per_second: float = field(default=200.0, validator=number(above=0), metadata=PROGRAM_ONLY)
