"""Writes messages to a recording: a file of JSON lines.

A recorded server or client owns a recorder. The taps of the server's sessions, or :mod:`mcptrio.recording.link`, pass
the messages to it. A thread redacts and writes the queued messages. If the queue is full, messages are dropped and
counted, so a slow disk never delays a call.

Source: JSON Lines.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import orjson
import trio
from attrs import frozen

from mcptrio.errors import ConfigError
from mcptrio.ground.lines_file import LinesFile
from mcptrio.ground.nurseries import open_hidden_nursery
from mcptrio.ground.redaction import redact
from mcptrio.ground.version import __version__
from mcptrio.protocol.jsonrpc import encode
from mcptrio.protocol.messages import Batch, Incoming, Malformed, Message
from mcptrio.protocol.revisions.registry import REVISIONS
from mcptrio.recording.memory_lines import MemoryLines
from mcptrio.recording.message_redaction import MessageRedactor
from mcptrio.recording.transcript import FORMAT, FORMAT_VERSION, is_recording

__all__ = ["Recorder", "SessionRecorder", "Side"]

_log = logging.getLogger("mcptrio.recording")

Side: TypeAlias = Literal["server", "client"]
"""The side that records. The direction ``in`` marks a message that this side has received."""

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a file. A larger file is renamed to ``FILE.1``, which replaces an older one."""
MAX_QUEUED: Final = 10_000
"""Messages that wait for the thread."""
MAX_QUEUED_BYTES: Final = 16 * 1024 * 1024
"""Bytes of the messages that wait for the thread. An empty queue accepts one larger message."""
FLUSH_SECONDS: Final = 0.05
"""Seconds for which messages are collected. A switch to a thread for each message would take longer than most calls."""
CLOSE_SECONDS: Final = 2.0
"""Seconds for writing the queued messages when the recording ends."""


@frozen
class _Queued:
    t: float
    direction: Literal["in", "out"]
    session: SessionRecorder
    data: bytes


@frozen
class _Batch:
    queue: list[_Queued]
    dropped: int
    t: float


class Recorder:
    """Records messages in a file of JSON lines or in memory.

    Args:
        path: The file, which is created with mode 0600, or a recording in memory. If the file is already a recording,
            that one is renamed to ``FILE.1``.
        name: The name of the server.
        redactions: Remove secrets from a text. They are called in a thread.
        max_bytes: Bytes of the file before it is renamed.
    """

    def __init__(
        self,
        path: Path | str | MemoryLines,
        *,
        name: str,
        side: Side,
        redactions: Sequence[Callable[[str], str]] = (redact,),
        max_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        self._memory = path if isinstance(path, MemoryLines) else None
        self._path = Path() if isinstance(path, MemoryLines) else Path(path)
        self._redactor = MessageRedactor(redactions)
        self._max_bytes = max_bytes
        self._header: dict[str, Any] = {
            FORMAT: FORMAT_VERSION,
            "mcptrio": __version__,
            "server": name,
            "side": side,
            "revisions": list(REVISIONS),
            # Pairs the file with its first part, FILE.1.
            "run": secrets.token_hex(8),
        }
        self._queue: list[_Queued] = []
        self._bytes = 0
        self._dropped = 0
        self._sessions: dict[str, int] = {}
        self._started = 0.0
        self._began = datetime.now(UTC)
        self._arrived = trio.Event()
        # The thread that holds the lock takes the batches in order. A cancelled wait abandons its thread, which goes
        # on, so another thread may start.
        self._batches: deque[_Batch] = deque()
        self._writing = threading.Lock()
        self._has_failed = False
        # The number of messages that were dropped or not written, and that no line of the file reports yet.
        self._uncounted = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write the messages that are recorded during the block.

        Raises:
            ConfigError: The file cannot be written, or is not a recording.
        """
        self._started, self._began = trio.current_time(), datetime.now(UTC)
        file = self._open()
        try:
            async with open_hidden_nursery() as nursery:
                nursery.start_soon(self._write_queued, file)
                yield
        finally:
            # Shielded, because the last messages are often the interesting ones when a server is cancelled.
            with trio.move_on_after(CLOSE_SECONDS, shield=True):
                self._hand_over()
                await trio.to_thread.run_sync(self._finish, file, abandon_on_cancel=True)

    def session(
        self,
        via: str,
        *,
        principal: str | None = None,
        name: str | None = None,
        on_ended: Callable[[], None] | None = None,
    ) -> SessionRecorder:
        """Return the recorder of one session.

        Args:
            via: The transport, such as ``stdio`` or ``http``.
            name: The name of the session; by default, the transport with a number.
            on_ended: Called when the session has ended.
        """
        if name is None:
            number = self._sessions[via] = self._sessions.get(via, 0) + 1
            name = f"{via}-{number}"
        return SessionRecorder(self, via, name, principal, on_ended)

    def put(self, direction: Literal["in", "out"], session: SessionRecorder, message: Message) -> None:
        """Queue a message. Does not block."""
        # The message is encoded at once, because its size must be known, and the handler may change it later.
        data = encode(message)
        if self._memory is not None and not self._memory.admit(len(data)):
            return
        # Otherwise a message that is larger than the whole queue would never be recorded.
        if self._queue and (len(self._queue) >= MAX_QUEUED or self._bytes + len(data) > MAX_QUEUED_BYTES):
            self._dropped += 1
            return
        self._queue.append(_Queued(trio.current_time() - self._started, direction, session, data))
        self._bytes += len(data)
        # Only the first message wakes the task, which collects those that follow.
        if len(self._queue) == 1:
            self._arrived.set()

    # Private

    def _open(self) -> LinesFile | MemoryLines:
        if self._memory is not None:
            self._memory.write(self._first_line())
            return self._memory
        path = self._path
        try:
            if path.exists() and not is_recording(path):
                raise ConfigError(f"record: {path}: expected a new file or a recording, got another file")
            return LinesFile(path, max_bytes=self._max_bytes, first_line=self._first_line)
        except OSError as error:
            raise ConfigError(f"record: {path} cannot be written: {error.strerror or error}") from error

    def _first_line(self) -> bytes:
        return orjson.dumps({**self._header, "at": self._timestamp(0.0)})

    async def _write_queued(self, file: LinesFile | MemoryLines) -> None:
        while True:
            await self._arrived.wait()
            self._arrived = trio.Event()
            await trio.sleep(FLUSH_SECONDS)
            self._hand_over()
            await trio.to_thread.run_sync(self._write, file, abandon_on_cancel=True)

    def _hand_over(self) -> None:
        self._batches.append(_Batch(self._queue, self._dropped, trio.current_time() - self._started))
        self._queue, self._dropped, self._bytes = [], 0, 0

    # In a thread

    def _finish(self, file: LinesFile | MemoryLines) -> None:
        with self._writing:
            self._write_batches(file)
            file.close()

    def _write(self, file: LinesFile | MemoryLines) -> None:
        with self._writing:
            self._write_batches(file)

    def _write_batches(self, file: LinesFile | MemoryLines) -> None:
        while self._batches:
            batch = self._batches.popleft()
            self._uncounted += batch.dropped
            for number, each in enumerate(batch.queue):
                if not self._try_write(file, self._entry(each)):
                    # The disk is probably full, so each further attempt would fail too and only take time.
                    self._uncounted += len(batch.queue) - number
                    break
            else:
                if self._uncounted and self._try_write(file, {**self._times(batch.t), "dropped": self._uncounted}):
                    self._uncounted = 0

    def _try_write(self, file: LinesFile | MemoryLines, entry: Mapping[str, Any]) -> bool:
        try:
            if self._has_failed:
                # Ends a line that a full disk has cut short.
                file.write(b"")
            file.write(orjson.dumps(entry))
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                _log.error("%s: messages are not recorded: %s", self._path, error)
            return False
        self._has_failed = False
        return True

    def _entry(self, queued: _Queued) -> dict[str, Any]:
        session = queued.session
        return {
            **self._times(queued.t),
            "dir": queued.direction,
            "session": session.name,
            "principal": session.principal,
            "via": session.via,
            "message": self._redactor.clean(orjson.loads(queued.data)),
        }

    def _times(self, t: float) -> dict[str, Any]:
        return {"t": round(t, 6), "at": self._timestamp(t)}

    def _timestamp(self, t: float) -> str:
        return (self._began + timedelta(seconds=t)).isoformat(timespec="milliseconds")


class SessionRecorder:
    """Records the messages of one session, as its tap. Made by :meth:`Recorder.session`."""

    __slots__ = ("_on_ended", "name", "principal", "recorder", "via")

    def __init__(
        self, recorder: Recorder, via: str, name: str, principal: str | None, on_ended: Callable[[], None] | None
    ) -> None:
        self.recorder = recorder
        self._on_ended = on_ended
        self.via = via
        self.name = name
        self.principal = principal

    def received(self, incoming: Incoming) -> None:
        """Record a message or a batch of the other side. Of an invalid message, only the answer is recorded."""
        for message in incoming.messages if isinstance(incoming, Batch) else (incoming,):
            if not isinstance(message, Malformed):
                self.recorder.put("in", self, message)

    def sent(self, item: Message | Sequence[Message]) -> None:
        """Record a message or a batch of this side."""
        for message in item if isinstance(item, Sequence) else (item,):
            self.recorder.put("out", self, message)

    def ended(self) -> None:
        """Report that the session has ended."""
        if self._on_ended is not None:
            self._on_ended()
