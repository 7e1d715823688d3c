"""Reads a recording.

``mcptrio show`` and ``mcptrio replay`` use it. An unreadable line, for example one that a full disk has cut short, is
counted and left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson
from attrs import field, frozen

from mcptrio.errors import ConfigError
from mcptrio.ground.quoting import quote_name

__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "UPSTREAM",
    "RecordedEntry",
    "Transcript",
    "entry_of",
    "is_recording",
    "read_transcript",
]

FORMAT: Final = "mcptrio_recording"
"""The member of the first line that has the version of the format."""
FORMAT_VERSION: Final = 1
UPSTREAM: Final = "mount "
"""The prefix of ``via`` for messages between the recorded server and a server that it mounts."""
MAX_READ_BYTES: Final = 512 * 1024 * 1024
"""Bytes of a recording that can be read, both parts together."""
_MAX_HEADER_BYTES: Final = 64 * 1024


@frozen(kw_only=True)
class RecordedEntry:
    """One message of a recording.

    Args:
        number: Counted from 1 in the whole recording.
        t: Seconds since the recording began.
        at: The date and time, as the recording has it.
        to_server: True for a message of the client.
        session: The name of the session.
        principal: The subject of the principal; ``None`` for an anonymous client.
        via: The transport, or :data:`UPSTREAM` and the name of a mounted server.
        message: The message as JSON.
    """

    number: int
    t: float
    at: str
    to_server: bool
    session: str
    principal: str | None
    via: str
    message: Mapping[str, Any]

    @property
    def method(self) -> str | None:
        """The method of a request or notification."""
        method = self.message.get("method")
        return method if isinstance(method, str) else None

    @property
    def id(self) -> str | int | None:
        id = self.message.get("id")
        return id if isinstance(id, str | int) else None

    @property
    def params(self) -> Mapping[str, Any]:
        params = self.message.get("params")
        return params if isinstance(params, dict) else {}

    @property
    def is_request(self) -> bool:
        return self.method is not None and self.id is not None

    @property
    def is_response(self) -> bool:
        return "result" in self.message or "error" in self.message

    @property
    def error(self) -> Mapping[str, Any] | None:
        error = self.message.get("error")
        return error if isinstance(error, dict) else None


@frozen(kw_only=True)
class Transcript:
    """A recording that was read.

    Args:
        header: The first line.
        dropped: Messages that are missing, because the disk was slow or full.
        unreadable: Lines that cannot be read.
    """

    path: Path
    header: Mapping[str, Any]
    entries: tuple[RecordedEntry, ...]
    dropped: int = 0
    unreadable: int = 0
    server: str = field(default="recorded")

    def of_session(self, session: str | None) -> tuple[RecordedEntry, ...]:
        """Return the messages of one session.

        ``None`` means all sessions except those with servers that the recorded server mounts.
        """
        if session is None:
            return tuple(entry for entry in self.entries if not entry.via.startswith(UPSTREAM))
        entries = tuple(entry for entry in self.entries if entry.session == session)
        if not entries:
            known = ", ".join(dict.fromkeys(entry.session for entry in self.entries)) or "none"
            raise ConfigError(f"{self.path}: there is no session {quote_name(session)}; there are: {known}")
        return entries


def is_recording(path: Path) -> bool:
    """Return whether a file is a recording, or empty.

    Raises:
        OSError: The file cannot be read.
    """
    if not path.is_file():
        return False
    with path.open("rb") as file:
        first = file.readline(_MAX_HEADER_BYTES)
    return not first or _parse_header(first) is not None


def read_transcript(path: Path) -> Transcript:
    """Read a recording, including ``FILE.1`` if that file is the first part of the same recording.

    Raises:
        ConfigError: The file cannot be read, is not a recording, or is too large.
    """
    older = path.with_name(f"{path.name}.1")
    try:
        size = path.stat().st_size + (older.stat().st_size if older.is_file() else 0)
        if size > MAX_READ_BYTES:
            raise ConfigError(f"{path}: expected at most {MAX_READ_BYTES} bytes, got {size}")
        header = _read_header(path)
        parts = [path]
        if older.is_file() and is_recording(older) and _read_header(older).get("run") == header.get("run"):
            parts.insert(0, older)
        lines = [line for part in parts for line in part.read_bytes().splitlines() if line]
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    entries: list[RecordedEntry] = []
    dropped = unreadable = 0
    for line in lines:
        value = _parse_object(line)
        if value is None:
            unreadable += 1
        elif FORMAT in value:
            continue
        elif "dropped" in value:
            dropped += value["dropped"] if isinstance(value["dropped"], int) else 0
        elif (entry := entry_of(value, len(entries) + 1, header)) is not None:
            entries.append(entry)
        else:
            unreadable += 1
    return Transcript(
        path=path,
        header=header,
        entries=tuple(entries),
        dropped=dropped,
        unreadable=unreadable,
        server=str(header.get("server", "recorded")),
    )


def _read_header(path: Path) -> Mapping[str, Any]:
    with path.open("rb") as file:
        header = _parse_header(file.readline(_MAX_HEADER_BYTES))
    if header is None:
        raise ConfigError(f"{path}: expected a recording that --record has written, got another file")
    if header[FORMAT] != FORMAT_VERSION:
        raise ConfigError(
            f"{path}: expected version {FORMAT_VERSION} of the format, got {header[FORMAT]!r}: use the mcptrio"
            f" {header.get('mcptrio')} that has written it"
        )
    return header


def _parse_header(line: bytes) -> Mapping[str, Any] | None:
    value = _parse_object(line)
    return value if value is not None and FORMAT in value else None


def _parse_object(line: bytes) -> dict[str, Any] | None:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def entry_of(value: Mapping[str, Any], number: int, header: Mapping[str, Any]) -> RecordedEntry | None:
    """Return the message of a line; ``None`` if the line has no message."""
    t, message, direction = value.get("t"), value.get("message"), value.get("dir")
    if not isinstance(t, int | float) or not isinstance(message, dict) or direction not in ("in", "out"):
        return None
    via = str(value.get("via"))
    # A server is the client of the servers that it mounts.
    is_client = header.get("side") == "client" or via.startswith(UPSTREAM)
    principal = value.get("principal")
    return RecordedEntry(
        number=number,
        t=float(t),
        at=str(value.get("at")),
        to_server=(direction == "out") == is_client,
        session=str(value.get("session")),
        principal=principal if isinstance(principal, str) else None,
        via=via,
        message=message,
    )
