"""A recorded server in memory, for tests without the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mcptrio.abc import MessageChannel
from mcptrio.ground.nurseries import open_hidden_nursery
from mcptrio.recording.replay_server import ReplayServer
from mcptrio.recording.transcript import read_transcript
from mcptrio.transports.memory import memory_channel_pair

__all__ = ["read_replay", "replayed"]


@asynccontextmanager
async def replayed(
    path: str | Path, *, session: str | None = None, speed: float = 0.0
) -> AsyncIterator[MessageChannel]:
    """Open a channel to a recorded server inside the context: ``async with replayed(path) as channel``.

    Args:
        path: A recording, written with ``--record``.
        session: The name of a session; by default all messages are used.
        speed: The factor by which recorded pauses are shorter; 0 for no pauses.

    Raises:
        ConfigError: The file cannot be read, is not a recording, or has no such session.
    """
    server = read_replay(Path(path), session=session, speed=speed)
    client_end, server_end = memory_channel_pair()
    client_end.name = server.name
    async with open_hidden_nursery() as nursery:
        nursery.start_soon(server.serve, server_end)  # noqa: ASYNC113 - the channel keeps messages until then
        yield client_end


def read_replay(path: Path, *, session: str | None = None, speed: float = 0.0) -> ReplayServer:
    """Read a recording as a server. See :func:`replayed`."""
    transcript = read_transcript(path)
    return ReplayServer(transcript.server, transcript.of_session(session), speed=speed)
