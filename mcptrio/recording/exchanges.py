"""The requests of a recorded client, each with the messages of the server until its response.

A recording has messages in the order of time. Progress reports and subscribed notifications name their request. Any
other message of the server is assigned to the newest open request, because only HTTP shows which request it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import define, field

from mcptrio.protocol.envelope import PROTOCOL_VERSION, SUBSCRIPTION_ID
from mcptrio.recording.transcript import RecordedEntry

__all__ = ["RecordedExchange", "RecordedStep", "exchanges_of", "revision_of", "subscription_of", "without_meta"]


@define
class RecordedStep:
    """A message of the server that is not a response.

    Args:
        answer: The client's response, if the message is a request.
    """

    entry: RecordedEntry
    answer: RecordedEntry | None = None


@define(kw_only=True)
class RecordedExchange:
    """One request of the client.

    Args:
        steps: The messages before the response.
        response: ``None`` if there was no response, for example because the client cancelled the request.
        later: The messages after the response, before the next request of the client.
    """

    request: RecordedEntry
    steps: list[RecordedStep] = field(factory=list)
    response: RecordedEntry | None = None
    later: list[RecordedEntry] = field(factory=list)

    @property
    def target(self) -> str:
        """The name of the tool or prompt, or the URI; empty for other methods."""
        params = self.request.params
        name_or_uri = next((params[name] for name in ("name", "uri") if isinstance(params.get(name), str)), "")
        return str(name_or_uri)


def exchanges_of(entries: Iterable[RecordedEntry]) -> list[RecordedExchange]:
    """Return the exchanges of messages, in the order of the requests."""
    sessions: dict[str, _OpenRequests] = {}
    exchanges: list[RecordedExchange] = []
    for entry in entries:
        session = sessions.setdefault(entry.session, _OpenRequests())
        exchange = session.add(entry)
        if exchange is not None:
            exchanges.append(exchange)
    return exchanges


def revision_of(exchanges: Iterable[RecordedExchange]) -> str | None:
    """Return the revision that the first client has negotiated; ``None`` if no message says it."""
    for exchange in exchanges:
        version: Any = None
        if exchange.request.method == "initialize":
            result = exchange.response.message.get("result") if exchange.response is not None else None
            version = result.get("protocolVersion") if isinstance(result, dict) else None
        elif exchange.response is not None and exchange.response.error is None:
            meta = exchange.request.params.get("_meta")
            version = meta.get(PROTOCOL_VERSION) if isinstance(meta, dict) else None
        if isinstance(version, str):
            return version
    return None


def without_meta(params: Any) -> dict[str, Any]:
    """Return parameters without ``_meta``, which differs from client to client."""
    return {name: value for name, value in params.items() if name != "_meta"} if isinstance(params, dict) else {}


def subscription_of(params: Any) -> Any:
    """Return the id of the subscription that a notification belongs to; ``None`` if it belongs to none."""
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta.get(SUBSCRIPTION_ID) if isinstance(meta, dict) else None


class _OpenRequests:
    """The open requests of one recorded session, while its messages are read in order."""

    def __init__(self) -> None:
        self._open: dict[str | int | None, RecordedExchange] = {}
        self._open_steps: dict[str | int | None, RecordedStep] = {}
        self._last: RecordedExchange | None = None

    def add(self, entry: RecordedEntry) -> RecordedExchange | None:
        """Add a message. Return a new exchange if the message is a request of the client."""
        if entry.to_server:
            if entry.is_request:
                exchange = self._open[entry.id] = self._last = RecordedExchange(request=entry)
                return exchange
            if entry.is_response and entry.id in self._open_steps:
                self._open_steps.pop(entry.id).answer = entry
        elif entry.is_response:
            exchange_of_id = self._open.pop(entry.id, None)
            if exchange_of_id is not None:
                exchange_of_id.response = entry
        else:
            self._add_step(entry)
        return None

    def _add_step(self, entry: RecordedEntry) -> None:
        exchange = self._exchange_of(entry)
        if exchange is not None:
            step = RecordedStep(entry)
            exchange.steps.append(step)
            if entry.is_request:
                self._open_steps[entry.id] = step
        elif self._last is not None and not entry.is_request:
            self._last.later.append(entry)

    def _exchange_of(self, entry: RecordedEntry) -> RecordedExchange | None:
        params = entry.params
        token = params.get("progressToken") if entry.method == "notifications/progress" else None
        subscription = subscription_of(params)
        for exchange in self._open.values():
            meta = exchange.request.params.get("_meta")
            if token is not None and isinstance(meta, dict) and meta.get("progressToken") == token:
                return exchange
            if subscription is not None and exchange.request.id == subscription:
                return exchange
        # The newest request is the last one in the dictionary.
        return next(reversed(self._open.values()), None)
