"""The bounds of one server: how many sessions, requests, streams, parked handlers.

Read by the supervisor and its sessions. The one rule: every number has a default, and past it there is a refusal that
names the limit, never a queue without end.
"""

from __future__ import annotations

from attrs import frozen

__all__ = ["Limits"]


@frozen(kw_only=True)
class Limits:
    """
    Args:
        sessions: handshake sessions with a local working part, on this process.
        requests: requests in flight on this process.
        requests_per_session: requests in flight in one session (one stdio process is one session); as many
            notifications may be waiting for plugins to hear them, more are dropped.
        listen_streams: open ``subscriptions/listen`` requests.
        subscriptions: URIs one session or one listen request may subscribe to.
        parked: handlers that wait for a client's answer between two requests; past it the caller with the most of them
            loses its oldest, whose retry replays. 0 makes every retry replay.
        state_bytes: length of a sealed ``requestState``.
        outbox: messages waiting to be written to one peer; past it senders wait.
        threads: sync functions of one plugin running at the same time.
        logs_per_second: log messages sent to one session; past it they are dropped, and a later message says how many.
    """

    sessions: int = 10_000
    requests: int = 10_000
    requests_per_session: int = 1_000
    listen_streams: int = 10_000
    subscriptions: int = 1_000
    parked: int = 1_000
    state_bytes: int = 64 * 1024
    outbox: int = 1_000
    threads: int = 40
    logs_per_second: float = 200.0
