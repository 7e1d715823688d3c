"""Runs ``mcptrio`` as a process, with real descriptors, signals and exit status.

The tests of the command line and of serving use it. Every wait has a deadline, and a process and its children end with
its test.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attrs import define, field

__all__ = ["HELLO", "WAIT_TIMEOUT", "Served", "held_port", "line", "run", "serving"]

WAIT_TIMEOUT = 60.0
"""Seconds; only a failing test waits this long."""

HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment without the variables that configure mcptrio."""
    return {name: value for name, value in os.environ.items() if not name.startswith("MCPTRIO")} | more


def run(*args: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run ``mcptrio`` until it ends, with an empty input."""
    return subprocess.run(
        [sys.executable, "-m", "mcptrio", *args],
        cwd=cwd,
        env=environment(**env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * WAIT_TIMEOUT,
        check=False,
    )


@contextmanager
def held_port() -> Iterator[int]:
    """Yield a port that a server can bind repeatedly, and that no other program gets by chance."""
    with socket.socket() as held:
        # Linux lets another socket bind this very port while nothing listens, and gives it to no other program.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        if sys.platform != "linux":
            held.close()
        yield port


def line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


@define(eq=False)
class Served:
    """A running server.

    Attributes:
        written: The file that receives its standard error.
    """

    process: subprocess.Popen[bytes]
    written: Path
    _buffer: bytearray = field(factory=bytearray)
    _ids: int = 0

    # stdio

    def send(self, *messages: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(line(message) for message in messages))
        self.process.stdin.flush()

    def receive(self, seconds: float = WAIT_TIMEOUT) -> dict[str, Any]:
        """Return the next line, which must be a message; empty at the end of the output."""
        deadline = time.monotonic() + seconds
        assert self.process.stdout is not None
        while b"\n" not in self._buffer:
            readable, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            assert readable, f"nothing within {seconds} s; standard error: {self.stderr}"
            chunk = os.read(self.process.stdout.fileno(), 65536)
            if not chunk:
                assert not self._buffer, f"half a line: {bytes(self._buffer)!r}"
                return {}
            self._buffer += chunk
        end = self._buffer.index(b"\n") + 1
        message: dict[str, Any] = json.loads(self._buffer[:end])
        del self._buffer[:end]
        return message

    def rest(self) -> list[dict[str, Any]]:
        """Return the output until its end."""
        messages = []
        while message := self.receive():
            messages.append(message)
        return messages

    def greet(self) -> dict[str, Any]:
        """Run the handshake. Return the result of ``initialize``."""
        self.send(HELLO)
        result: dict[str, Any] = self.receive()["result"]
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    def start_call(self, name: str, **arguments: Any) -> int:
        """Call a tool without waiting. Return the id."""
        return self.start("tools/call", name=name, arguments=arguments)

    def start(self, method: str, **params: Any) -> int:
        self._ids += 1
        self.send({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params})
        return self._ids

    def call(self, name: str, **arguments: Any) -> str:
        """Return the text of a tool's result."""
        id = self.start_call(name, **arguments)
        while (message := self.receive()).get("id") != id:
            assert message, f"no answer to {name}; standard error: {self.stderr}"
        text: str = message["result"]["content"][0]["text"]
        return text

    def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    # Standard error

    @property
    def stderr(self) -> str:
        return self.written.read_text(errors="replace")

    def until(self, pattern: str, seconds: float = WAIT_TIMEOUT) -> re.Match[str]:
        """Wait until its standard error matches the pattern."""
        deadline = time.monotonic() + seconds
        while True:
            # Check first whether the process has ended, so that its last output is not missed.
            ended = self.process.poll() is not None
            match = re.search(pattern, self.stderr)
            if match:
                return match
            assert not ended, f"ended with {self.process.returncode}, without {pattern!r}: {self.stderr}"
            assert time.monotonic() < deadline, f"no {pattern!r} within {seconds} s: {self.stderr}"
            time.sleep(0.01)

    @property
    def port(self) -> int:
        """Return the port of an HTTP server, once it listens."""
        return int(self.until(r"(?m)^serving http://[^/]+:(\d+)/")[1])

    # The end

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, seconds: float = WAIT_TIMEOUT) -> tuple[int, float]:
        """Wait for its end. Return its exit code and the duration."""
        begin = time.monotonic()
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds} s; standard error: {self.stderr}") from None
        return code, time.monotonic() - begin


@contextmanager
def serving(
    *args: str,
    cwd: Path,
    command: Sequence[str] | None = None,
    logs: Path | None = None,
    stdin: int = subprocess.PIPE,
    stdout: int = subprocess.PIPE,
    env: Mapping[str, str] | None = None,
) -> Iterator[Served]:
    """``mcptrio serve`` with these arguments, in its own process group.

    Args:
        command: A command to run instead of ``mcptrio serve``.
        logs: The folder for its standard error; by default ``cwd``.
    """
    written = (logs or cwd) / f"stderr-{time.monotonic_ns()}.log"
    with written.open("wb") as errors:
        process = subprocess.Popen(
            command or [sys.executable, "-m", "mcptrio", "serve", *args],
            cwd=cwd,
            env=environment(**(env or {})),
            stdin=stdin,
            stdout=stdout,
            stderr=errors,
            start_new_session=True,
        )
    try:
        yield Served(process, written)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        process.wait()
