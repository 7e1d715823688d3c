"""Runs a server under test and connects clients to it: in memory, as a child process, or over HTTP.

The fixtures use this; tests without fixtures call :func:`open_served`. Nothing is mocked: the server is the public
class, and clients use ``mcptrio.connect``. Over stdio the server runs in another process; over HTTP it listens on a
port of 127.0.0.1.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import trio
from attrs import evolve

from mcptrio.client.client import Client
from mcptrio.client.handlers import Handlers
from mcptrio.connecting.connect import connect
from mcptrio.connecting.targets import Command, Target
from mcptrio.errors import ConfigError
from mcptrio.ground.nurseries import open_hidden_nursery
from mcptrio.recording.replay_server import ReplayServer
from mcptrio.runtime.settings import ServerSettings
from mcptrio.serve.http import serve_http
from mcptrio.serve.transport import CLOSE_TIMEOUT
from mcptrio.server import Server
from mcptrio.testing.cases import Case
from mcptrio.testing.clock import waiting_for_threads
from mcptrio.testing.faults import Fault
from mcptrio.testing.faulty_channel import FaultyChannel
from mcptrio.testing.recording import Recording
from mcptrio.testing.replay import read_replay
from mcptrio.testing.server_spec import ServerSpec, pickle_spec
from mcptrio.transports.memory import memory_channel_pair

__all__ = ["Connect", "Served", "open_served"]

_EXTRA_TIMEOUT: Final = 2.0
"""Seconds for the HTTP server to stop, in addition to its own timeouts."""


class Connect(Protocol):
    """The type of the fixture ``mcp_connect``: connects a client to the server under test."""

    def __call__(
        self,
        *,
        handlers: Handlers | None = None,
        revision: str | None = None,
        to_server: Sequence[Fault] = (),
        to_client: Sequence[Fault] = (),
    ) -> AbstractAsyncContextManager[Client]: ...


class Served:
    """A server under test. Made by :func:`open_served`."""

    def __init__(
        self,
        case: Case,
        target: Target,
        server: Server | None,
        recording: Recording | None,
        replay: ReplayServer | None = None,
    ) -> None:
        self.case = case
        self.target = target
        """The target for ``mcptrio.connect``. Over stdio, each connection starts a separate server process."""
        self.server = server
        """The server; ``None`` over stdio and for a recorded server."""
        self._recording = recording
        self._replay = replay

    @asynccontextmanager
    async def connect(
        self,
        *,
        handlers: Handlers | None = None,
        revision: str | None = None,
        to_server: Sequence[Fault] = (),
        to_client: Sequence[Fault] = (),
        options: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[Client]:
        """Connect a client inside the context.

        Args:
            handlers: Answer the server's questions.
            revision: The protocol revision; by default that of the case.
            to_server: Faults of messages to the server; only in memory.
            to_client: Faults of messages to the client; only in memory.
            options: Further arguments of ``mcptrio.connect``.

        Raises:
            ConfigError: Faults or a recording were requested over a transport other than ``memory``.
            MCPTrioError: As in ``mcptrio.connect``.
        """
        replay = self._replay
        revision = revision or (replay.revision if replay is not None else self.case.revision)
        arguments: dict[str, Any] = {"handlers": handlers, "revision": revision, **(options or {})}
        is_wrapped = to_server or to_client or self._recording is not None
        serve = replay.serve if replay is not None else None
        if serve is None and is_wrapped:
            if not isinstance(self.target, Server):
                raise ConfigError(f"faults and recordings: expected the transport memory, got {self.case.transport}")
            serve = self.target.supervisor.serve
        if serve is None:
            async with connect(self.target, **arguments) as client:
                yield client
            return
        name = replay.name if replay is not None else self.server.info.name if self.server is not None else None
        client_end, server_end = memory_channel_pair()
        channel = FaultyChannel(client_end, received=to_client)
        async with open_hidden_nursery() as nursery:
            # Each end has its own wrapper, because only received messages can be garbled.
            nursery.start_soon(serve, FaultyChannel(server_end, received=to_server))
            recorded = channel if self._recording is None else self._recording.of(channel)
            async with connect(recorded, **{"name": name, **arguments}) as client:
                yield client


@asynccontextmanager
async def open_served(
    spec: ServerSpec, case: Case | None = None, *, recording: Recording | None = None
) -> AsyncIterator[Served]:
    """Run a server over the transport of a case, inside the context.

    Args:
        spec: The description of the server.
        case: Revision and transport; by default the newest revision in memory.
        recording: Records the messages of the clients; only in memory.

    Raises:
        PluginError: A plugin failed, and the server is strict.
        ConfigError: The description is invalid, or cannot be transferred to another process.
    """
    case = case or Case()
    if case.recording:
        # A program that connects to the target, without the fixture, gets the same recording.
        args = (sys.executable, "-m", "mcptrio", "replay", case.recording, "--as", "server", "--speed", "max")
        yield Served(case, Command(args=args), None, recording, read_replay(Path(case.recording)))
        return
    if case.replay:
        settings: ServerSettings = spec.options.get("settings") or ServerSettings()
        # A server that may not suspend handlers replays them with the client's answers.
        settings = evolve(settings, limits=evolve(settings.limits, parked=0))
        spec = evolve(spec, options={**spec.options, "settings": settings})
    if case.transport == "stdio":
        with pickle_spec(spec) as file:
            # The child sees the environment variables that a test sets with monkeypatch, as a server in memory does.
            command = Command(args=(sys.executable, "-m", "mcptrio.testing.child", str(file)), inherit_env=True)
            yield Served(case, command, None, None)
        return
    server = spec.make()
    if case.transport == "memory":
        async with server.open():
            with waiting_for_threads(server.supervisor.threads):
                yield Served(case, server, server, recording)
    else:
        async with _serve_on_free_port(server) as url:
            yield Served(case, url, server, None)


@asynccontextmanager
async def _serve_on_free_port(server: Server) -> AsyncIterator[str]:
    """Serve on a free port and yield the URL. At the end the server stops as on a signal."""
    shutdown, stopped = trio.Event(), trio.Event()

    async def run(*, task_status: trio.TaskStatus[list[str]]) -> None:
        try:
            await serve_http(server, port=0, shutdown=shutdown, task_status=task_status)
        finally:
            stopped.set()

    async with open_hidden_nursery() as nursery:
        [url] = await nursery.start(run)
        try:
            yield url
        finally:
            shutdown.set()
            with trio.move_on_after(server.settings.timeouts.shutdown + CLOSE_TIMEOUT + _EXTRA_TIMEOUT, shield=True):
                await stopped.wait()
