"""The engine of a server that is recorded: passes everything on, and records each message.

The server gives it to its transports in place of its own engine, so that a server without a recording runs the same
code as before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mcptrio.abc import Engine, MessageChannel, MessageSink, PeerSession, Principal, SessionRecord
from mcptrio.protocol.messages import Incoming, Message, Notification, Request
from mcptrio.recording.message_redaction import hashed
from mcptrio.recording.recorder import Recorder, SessionRecorder

__all__ = ["RecordingEngine"]


class RecordingEngine:
    """A :class:`mcptrio.abc.Engine` that records what passes."""

    def __init__(self, engine: Engine, recorder: Recorder) -> None:
        self._engine = engine
        self._recorder = recorder
        self.run_guarded = engine.run_guarded
        self.param_headers = engine.param_headers
        self.missing_scopes = engine.missing_scopes
        self.route = engine.route
        self.readiness = engine.readiness

    @property
    def draining(self) -> bool:
        return self._engine.draining

    async def serve(self, channel: MessageChannel, *, principal: Principal | None = None) -> None:
        # The name of a socket also has the client's address.
        via = channel.name.partition(" ")[0]
        session = self._recorder.session(via, principal=_subject(principal))
        await self._engine.serve(_RecordedChannel(channel, session), principal=principal)

    async def answer(
        self,
        message: Request | Notification,
        outlet: MessageSink,
        *,
        principal: Principal | None = None,
        opened: Callable[[Callable[[str], None]], None] | None = None,
        standing: bool = False,
    ) -> bool:
        # A session for each: the ids of two clients may be the same.
        session = self._recorder.session("http", principal=_subject(principal))
        session.received(message)
        return await self._engine.answer(
            message, _RecordedSink(outlet, session), principal=principal, opened=opened, standing=standing
        )

    def open_session(self, *, principal: Principal | None = None, record: SessionRecord | None = None) -> PeerSession:
        peer = self._engine.open_session(principal=principal, record=record)
        # Hashed: with the id, a reader of the file could send messages in the session.
        name = f"http-{hashed(peer.id)}"
        session = self._recorder.session("http", principal=_subject(principal), name=name)
        # A property with a setter is the mutable attribute of the protocol, which pyright does not see.
        return _RecordedSession(peer, session)  # pyright: ignore[reportReturnType]


class _RecordedChannel:
    def __init__(self, channel: MessageChannel, session: SessionRecorder) -> None:
        self.name = channel.name
        self._channel = channel
        self._session = session
        self.aclose = channel.aclose

    async def receive(self) -> Sequence[Incoming]:
        received = await self._channel.receive()
        for each in received:
            self._session.received(each)
        return received

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        # Before it is sent: the answer may arrive before this task continues.
        for each in messages:
            self._session.sent(each)
        await self._channel.send(messages)


class _RecordedSink:
    def __init__(self, sink: MessageSink, session: SessionRecorder) -> None:
        self._sink = sink
        self._session = session
        self.close = sink.close
        self.release = sink.release

    async def send(self, message: Message | Sequence[Message]) -> None:
        self._session.sent(message)
        await self._sink.send(message)

    def send_latest(self, message: Notification, key: object) -> None:
        self._session.sent(message)
        self._sink.send_latest(message, key)


class _RecordedSession:
    """A :class:`mcptrio.abc.PeerSession` that records what passes."""

    def __init__(self, peer: PeerSession, session: SessionRecorder) -> None:
        self._peer = peer
        self._session = session
        self._attached: dict[MessageSink, MessageSink] = {}
        self.refresh = peer.refresh
        self.report_everything_changed = peer.report_everything_changed
        self.end = peer.end

    @property
    def principal(self) -> Principal | None:
        return self._peer.principal

    @principal.setter
    def principal(self, principal: Principal | None) -> None:
        self._peer.principal = principal

    @property
    def id(self) -> str:
        return self._peer.id

    @property
    def record(self) -> SessionRecord | None:
        return self._peer.record

    @property
    def busy(self) -> bool:
        return self._peer.busy

    @property
    def ended(self) -> bool:
        return self._peer.ended

    def receive(self, incoming: Incoming, outlet: MessageSink) -> bool:
        self._session.received(incoming)
        return self._peer.receive(incoming, _RecordedSink(outlet, self._session))

    def attach(self, outlet: MessageSink) -> None:
        self._attached[outlet] = recorded = _RecordedSink(outlet, self._session)
        self._peer.attach(recorded)

    def detach(self, outlet: MessageSink) -> None:
        recorded = self._attached.pop(outlet, None)
        if recorded is not None:
            self._peer.detach(recorded)


def _subject(principal: Principal | None) -> str | None:
    return principal.subject if principal is not None else None
