"""Records the sessions of a server: all of them in a file, or one of them in memory.

The server makes both recordings. Each session passes its messages to a tap, which is a session recorder.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, final

import orjson
import trio

from mcptrio.protocol.events import Peer
from mcptrio.recording.memory_lines import MemoryLines
from mcptrio.recording.message_redaction import short_hash
from mcptrio.recording.recorder import Recorder, SessionRecorder
from mcptrio.recording.sequence import RecordedMessage, sequence_of
from mcptrio.recording.transcript import RecordedEntry, entry_of
from mcptrio.runtime.session import Session
from mcptrio.runtime.supervisor import Supervisor

__all__ = ["SessionRecording", "recorder_of_session", "recording_session"]

MAX_MESSAGES: Final = 2000
"""Messages of a recording in memory."""
MAX_BYTES: Final = 8 * 1024 * 1024
"""Bytes of the messages of a recording in memory."""


@final
class SessionRecording:
    """A recording of one session in memory, which ``Server.record_session`` makes.

    The messages can be read during the recording and afterwards. The recording ends after 2,000 messages or 8 MiB.

    Args:
        name: The name of the server.
        redactions: Remove secrets from a text. They are called in a thread.
    """

    def __init__(self, name: str, redactions: Sequence[Callable[[str], str]]) -> None:
        self._memory = MemoryLines(max_messages=MAX_MESSAGES, max_bytes=MAX_BYTES)
        self.recorder = Recorder(self._memory, name=name, side="server", redactions=redactions)
        self.has_session_ended = False
        """True once the recorded session has ended."""
        self._ended = trio.Event()
        self._entries: list[RecordedEntry] = []
        self._read = 0
        self._header: dict[str, Any] = {}

    @property
    def is_full(self) -> bool:
        """True once a message was left out because the recording is full."""
        return self._memory.full.is_set()

    @property
    def lines(self) -> Sequence[bytes]:
        """The recording as JSON Lines, as ``--record`` writes it to a file. Each line ends with a line feed."""
        return tuple(self._memory.lines)

    @property
    def size(self) -> int:
        """The bytes of :attr:`lines`."""
        return sum(map(len, self._memory.lines))

    @property
    def messages(self) -> Sequence[RecordedMessage]:
        """The messages so far."""
        lines = self._memory.lines
        while self._read < len(lines):
            value = orjson.loads(lines[self._read])
            self._read += 1
            entry = entry_of(value, len(self._entries) + 1, self._header)
            if entry is not None:
                self._entries.append(entry)
            elif not self._header:
                self._header = value
        return tuple(sequence_of(self._entries))

    async def wait_ended(self) -> None:
        """Wait until the session has ended, or the recording is full."""
        async with trio.open_nursery() as nursery:
            for event in (self._ended, self._memory.full):
                nursery.start_soon(_cancel_after, event, nursery.cancel_scope)

    def note_ended(self) -> None:
        """Note that the session has ended."""
        self.has_session_ended = True
        self._ended.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Redact and store the messages that are recorded during the block."""
        async with self.recorder.running():
            yield


def recorder_of_session(
    recorder: Recorder, session: Session, on_ended: Callable[[], None] | None = None
) -> SessionRecorder:
    """Return the tap that records a session.

    Args:
        on_ended: Called when the session has ended.
    """
    # The name of a session on a socket also contains the client's address.
    via = session.name.partition(" ")[0]
    # The id is short_hash, because a reader of the file could send messages in the session with it.
    is_stored = session.is_counted and not session.is_shared
    name = f"{via}-{short_hash(session.id)}" if is_stored else None
    subject = session.principal.subject if session.principal is not None else None
    return recorder.session(via, principal=subject, name=name, on_ended=on_ended)


@contextmanager
def recording_session(
    supervisor: Supervisor, recording: SessionRecording, number: int | None, client: str | None
) -> Iterator[None]:
    """Record during the block. See :meth:`mcptrio.Server.record_session`.

    Raises:
        LookupError: There is no such session.
    """
    recorder = recording.recorder

    def tap(session: Session, peer: Peer | None) -> SessionRecorder | None:
        names = (
            peer.info.name if peer is not None and peer.info is not None else None,
            session.principal.subject if session.principal is not None else None,
        )
        is_wanted = peer is not None and client is not None and client in names
        return recorder_of_session(recorder, session) if is_wanted else None

    if client is not None:
        supervisor.tap_factories.append(tap)
        for session in supervisor.sessions:
            if not session.is_counted and (session_recorder := tap(session, session.last_peer)) is not None:
                supervisor.tap_session(session, session_recorder)
    else:
        recorded_session = next((each for each in supervisor.sessions if each.number == number), None)
        if recorded_session is None:
            raise LookupError(f"record_session: expected the number of an open session, got {number}")
        supervisor.tap_session(recorded_session, recorder_of_session(recorder, recorded_session, recording.note_ended))
    try:
        yield
    finally:
        if client is not None:
            supervisor.tap_factories.remove(tap)
        for session in supervisor.sessions:
            for each in tuple(session.taps):
                if isinstance(session.taps, list) and isinstance(each, SessionRecorder) and each.recorder is recorder:
                    session.taps.remove(each)


async def _cancel_after(event: trio.Event, cancel_scope: trio.CancelScope) -> None:
    await event.wait()
    cancel_scope.cancel()
