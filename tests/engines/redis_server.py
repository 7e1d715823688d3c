"""A Redis server for tests: a process on a free port, that can be stopped, stalled and started again."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.engines.programs import program_path

__all__ = ["PROGRAMS", "WAIT_TIMEOUT", "RedisServer", "free_port", "until"]

PROGRAMS = [name for name in ("redis-server", "valkey-server") if shutil.which(name)] or ["redis-server"]
"""The servers of this machine. The tests of the shared server run with each."""

WAIT_TIMEOUT = 20.0
"""Seconds; only a test that fails waits so long."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def until(is_so: Any, what: str, seconds: float = WAIT_TIMEOUT) -> None:
    """Wait in this thread until a function returns true."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)


class RedisServer:
    """A Redis or Valkey server in its own process.

    Args:
        folder: Keeps the files of the server.
        options: Further lines of its configuration, as arguments.
        program: ``redis-server`` or ``valkey-server``; the first that is installed if there is none.
    """

    def __init__(
        self, folder: Path, *options: str, port: int | None = None, config: Path | None = None, program: str = ""
    ) -> None:
        self.program = program_path(program or PROGRAMS[0])
        self._folder = folder
        self._options = options
        self._config = config
        self.port = port or free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.password = ""

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def start(self, *, is_ready: bool = True) -> None:
        """Start the server; wait until it answers, unless ``is_ready`` is false."""
        self._folder.mkdir(exist_ok=True, parents=True)
        arguments = [self.program, *([str(self._config)] if self._config else [])]
        arguments += ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder), "--save", ""]
        log = (self._folder / "server.log").open("ab")
        with log:
            self._process = subprocess.Popen([*arguments, *self._options], stdout=log, stderr=log)
        if is_ready:
            until(self.answers, f"redis-server answers on port {self.port}")

    def answers(self) -> bool:
        try:
            return bool(self.command("PING"))
        except RedisError as error:
            # With ACLs, this user may be unknown; the server runs.
            return "NOAUTH" in str(error) or "WRONGPASS" in str(error) or "Authentication required" in str(error)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(WAIT_TIMEOUT)

    def stall(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    @contextmanager
    def stalled(self) -> Iterator[None]:
        """Stop the server for the block."""
        self.stall()
        try:
            yield
        finally:
            self.resume()

    def command(self, *words: Any) -> Any:
        """Send a command over its own connection."""
        retry = Retry(NoBackoff(), 0)
        client: Any = Redis(port=self.port, socket_timeout=WAIT_TIMEOUT, password=self.password or None, retry=retry)
        try:
            return client.execute_command(*words)
        finally:
            client.close()

    def stop(self) -> None:
        """End the server, whatever its state."""
        if self._process is not None and self._process.poll() is None:
            self.resume()
            self.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
