"""The status of a process that serves, as a JSON document, and reading the documents of all processes of this user.

``mcptrio ps`` and ``mcptrio top`` read the documents from the control sockets (:mod:`mcptrio.serve.control_socket`). A
process sends one document to each reader, and reads nothing.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import trio
from attrs import evolve, frozen

from mcptrio.abc.status import RequestStatus, ServerStatus, SessionStatus
from mcptrio.serve.runtime_folder import runtime_folders

__all__ = ["SUFFIX", "ProcessStatus", "decode_status", "encode_status", "read_processes"]

SUFFIX: Final = ".sock"
"""The end of a control socket's name, which begins with the process id."""
MAX_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a document."""
_MAX_SESSIONS: Final = 500
_MAX_REQUESTS: Final = 2000
_MAX_TASKS: Final = 500
_MAX_READS: Final = 64
"""Sockets that are read at the same time."""
_TIMEOUT: Final = 2.0
"""Seconds for a document. A process whose event loop is blocked sends none."""
_CHUNK_BYTES: Final = 65536


@frozen(kw_only=True)
class ProcessStatus:
    """A process that serves.

    Args:
        parent: The process id of the parent of workers; ``None`` in a process that serves alone.
        transport: ``stdio``, ``http``, ``stream``, ``worker`` or the name of a plugin's transport.
        addresses: The addresses to which clients connect.
        age: Seconds since the server was opened.
        sessions: The number of all sessions; ``status`` may have only some of them.
        status: The status of the server, without the entries of plugins; ``None`` if the process did not send one
            within two seconds.
    """

    pid: int
    parent: int | None = None
    transport: str = ""
    addresses: tuple[str, ...] = ()
    age: float | None = None
    sessions: int = 0
    status: ServerStatus | None = None


def encode_status(process: ProcessStatus) -> bytes:
    """Return the document, of at most :data:`MAX_BYTES`. Plugins, sessions and tasks are left out if it is longer."""
    status = process.status
    if status is not None:
        process = evolve(process, status=_truncate(status))
    data = msgspec.json.encode(process)
    if len(data) > MAX_BYTES and status is not None:
        # Peers choose their names and ids, which may be long.
        data = msgspec.json.encode(evolve(process, status=evolve(status, plugins=(), sessions=(), tasks=(), parked=())))
    return data


def decode_status(data: bytes) -> ProcessStatus:
    """Return the status in a document.

    Raises:
        ValueError: The document is invalid.
    """
    return msgspec.json.decode(data, type=ProcessStatus)


async def read_processes() -> list[ProcessStatus]:
    """Return the processes of this user that serve, the oldest first. Removes the sockets of processes that ended."""
    processes: list[ProcessStatus] = []
    limiter = trio.CapacityLimiter(_MAX_READS)
    async with trio.open_nursery() as nursery:
        for path in _sockets():
            nursery.start_soon(_read_into, processes, path, limiter)
    return sorted(processes, key=lambda each: (-(each.age or 0.0), each.pid))


def _sockets() -> Iterator[Path]:
    if not hasattr(socket, "AF_UNIX"):
        return
    paths = (path for folder in runtime_folders() for path in folder.glob(f"*{SUFFIX}"))
    yield from (path for path in paths if path.stem.isascii() and path.stem.isdecimal())


async def _read_into(processes: list[ProcessStatus], path: Path, limiter: trio.CapacityLimiter) -> None:
    data = None
    # The connections of earlier readers fill the backlog of a blocked process, and the system then refuses further
    # ones.
    with suppress(OSError, trio.BrokenResourceError):
        async with limiter:
            with trio.move_on_after(_TIMEOUT):
                try:
                    data = await _read(path)
                except (ConnectionRefusedError, FileNotFoundError):
                    # The process was killed. It is not starting, because a socket gets its name only once it listens.
                    _remove(path)
                    return
    try:
        processes.append(ProcessStatus(pid=int(path.stem)) if data is None else decode_status(data))
    except ValueError:
        # The process has another version of mcptrio, or has just ended.
        pass


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


async def _read(path: Path) -> bytes:
    data = bytearray()
    async with await trio.open_unix_socket(path) as stream:
        while chunk := await stream.receive_some(_CHUNK_BYTES):
            data += chunk
            if len(data) > MAX_BYTES:
                break
    return bytes(data)


def _truncate(status: ServerStatus) -> ServerStatus:
    """Return the status without the entries of plugins, and with the sessions whose requests are oldest."""
    sessions: list[SessionStatus] = []
    requests = 0
    # Sessions with the oldest requests first, because an operator looks for requests that hang.
    for session in sorted(status.sessions, key=_oldest, reverse=True)[:_MAX_SESSIONS]:
        requests_of_session = session.requests[: max(0, _MAX_REQUESTS - requests)]
        requests += len(requests_of_session)
        sessions.append(evolve(session, requests=requests_of_session))
    return evolve(
        status,
        plugins=tuple(evolve(plugin, offers={}, withheld={}, warnings=()) for plugin in status.plugins),
        sessions=tuple(sessions),
        tasks=status.tasks[:_MAX_TASKS],
        parked=status.parked[:_MAX_TASKS],
    )


def _oldest(session: SessionStatus) -> float:
    return max((_age(request) for request in session.requests), default=-1.0)


def _age(request: RequestStatus) -> float:
    return request.age
