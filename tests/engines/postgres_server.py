"""A PostgreSQL server of the machine, on a Unix socket and a free loopback port, with its data in a folder."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from tests.engines.programs import program_path

__all__ = ["PostgresServer", "data_folder", "server_at"]

WAIT_TIMEOUT = 30.0


def _other_user() -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    return {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}


def _give(path: Path) -> None:
    if os.geteuid() == 0:
        shutil.chown(path, "postgres", "postgres")


@contextmanager
def data_folder(template: Path | None = None) -> Iterator[Path]:
    """A folder with an empty cluster, a copy of ``template`` if there is one."""
    # PostgreSQL runs as another user, which may not enter pytest's folders.
    folder = Path(tempfile.mkdtemp(prefix="mcptrio-postgres-"))
    try:
        _give(folder)
        data = folder / "data"
        if template is not None:
            subprocess.run(["cp", "-r", str(template / "data"), str(data)], check=True, cwd=folder, **_other_user())
        else:
            command = [program_path("initdb"), "-D", str(data), "-U", "mcptrio", "-A", "trust", "-E", "UTF8"]
            options = ["--locale=C", "--no-sync"]
            subprocess.run([*command, *options], check=True, cwd=folder, stdout=subprocess.DEVNULL, **_other_user())
        yield folder
    finally:
        shutil.rmtree(folder)


class PostgresServer:
    """A server that can be stopped, killed, stalled and started again on the same port.

    Args:
        folder: Made by :func:`data_folder`.
        options: Further arguments.
        port: By default a free one.
    """

    def __init__(self, folder: Path, *options: str, port: int = 0) -> None:
        self.folder = folder
        self.options = options
        self.port = port
        if not port:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://mcptrio@127.0.0.1:{self.port}/postgres"

    @property
    def socket_url(self) -> str:
        return f"postgresql://mcptrio@/postgres?host={self.folder}&port={self.port}"

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self.folder,
            # The tests kill processes, never the machine.
            "fsync": "off",
            "max_connections": 100,
            "shared_buffers": "32MB",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [program_path("postgres"), "-D", str(self.folder / "data"), *options, *self.options],
                cwd=self.folder,
                stderr=log,
                **_other_user(),
            )
        deadline = time.monotonic() + WAIT_TIMEOUT
        while True:
            try:
                psycopg.connect(self.socket_url).close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < deadline, "the server does not start"
                time.sleep(0.02)

    def stop(self, signal_number: int = signal.SIGINT) -> None:
        """End the server: SIGINT ends connections, SIGQUIT ends it without a checkpoint, like a crash. Idempotent."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal_number)
            process.wait(WAIT_TIMEOUT)

    def kill(self) -> None:
        """End the server like a crash. SIGKILL would leave its children, which share its memory."""
        self.stop(signal.SIGQUIT)

    @contextmanager
    def stalled(self) -> Iterator[None]:
        """Stop all processes of the server for the block."""
        assert self._process is not None
        main = self._process.pid
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        pids = [main, *map(int, children)]
        for pid in pids:
            _signal(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                _signal(pid, signal.SIGCONT)

    def run(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run a statement of the test's own."""
        with psycopg.connect(self.socket_url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), parameters or None)
            return cursor.fetchall() if cursor.description is not None else []


@contextmanager
def server_at(folder: Path, *options: str) -> Iterator[PostgresServer]:
    server = PostgresServer(folder, *options)
    server.start()
    try:
        yield server
    finally:
        # Its data are deleted, so it need not write a checkpoint first.
        server.kill()


def _signal(pid: int, number: signal.Signals) -> None:
    # A child of the server may have ended.
    with suppress(ProcessLookupError):
        os.kill(pid, number)
